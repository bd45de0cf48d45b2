//! Proxies with which a test can disturb the connection to a server. Each listens on a port of the local host.

mod black_hole;
mod broken_commit;
mod lost_responses;
mod moving_address;
mod slow_link;

pub use black_hole::BlackHole;
pub use broken_commit::{BrokenCommit, CommitFault};
pub use lost_responses::LostResponses;
pub use moving_address::MovingAddress;
pub use slow_link::SlowLink;
