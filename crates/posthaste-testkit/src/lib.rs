//! Test helpers that are shared by the crates of this workspace. Not published.
//!
//! It depends on no driver: servers and proxies have a port or a URL, and a test builds its driver's options from that.
//! So every crate can use it, including the tests inside its `src`.

mod case_tests;
#[cfg(feature = "certificates")]
pub mod certificates;
pub mod encoding_cases;
mod environment;
mod events;
mod findings;
pub mod grants;
mod hook_calls;
pub mod log;
pub mod process;
pub mod proxy;
pub mod sample_rows;
pub mod server;
mod wait;
pub mod writer_script;

pub use environment::{unique_name, variable};
pub use events::{delivered, event, events, set_of};
pub use findings::{assert_found, diagnosed, diagnosed_with, found, statement_of};
pub use hook_calls::{HookCalls, TransactionEnds};
pub use wait::{HOUR, assert_throughout, drop_after, wait_until, within_timeout};
