//! Ways to a server that a test can break: each is a port of the local host, and ends with the test.

mod black_hole;
mod broken_commit;
mod lost_answers;
mod moving_address;
mod slow_line;

pub use black_hole::BlackHole;
pub use broken_commit::{BrokenCommit, Fate};
pub use lost_answers::LostAnswers;
pub use moving_address::MovingAddress;
pub use slow_line::SlowLine;
