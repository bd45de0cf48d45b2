//! Ways to a server that a test can break: each is a port of the local host, and ends with the test.

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
