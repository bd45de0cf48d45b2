//! Environment of the tests: the servers and programs to use, and unique names.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Value of a `POSTHASTE_TEST_…` variable, which `cargo xtask test` sets. Panics if it is not set.
#[track_caller]
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask test`, or `cargo xtask services up` and the commands it prints")
    })
}

/// A name with this prefix that no other test of any process uses: letters, digits and underscores.
pub fn unique_name(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{now}_{}_{n}", std::process::id())
}
