//! How long an event waits when it is written.

use std::time::{Duration, SystemTime};

use posthaste::Event;

/// An import brings events of the past: when they are due does not depend on when they happened.
#[test]
fn delay_counts_from_the_clock_at_the_write_and_not_from_the_time_it_happened() {
    const MINUTE: Duration = Duration::from_secs(60);
    let made = || Event::builder("Made").json_text("{}");
    let day = 24 * 60 * MINUTE;
    let tomorrow = SystemTime::now() + day;
    let import = made().occurred_at(SystemTime::now() - 3 * day).available_at(tomorrow).build();
    let delay = import.expect("good").delay().expect("held back");
    assert!(delay <= day && delay > day - MINUTE, "{delay:?}");
    let over = made().occurred_at(SystemTime::now() - 3 * day).available_at(SystemTime::now() - day);
    assert_eq!(over.build().expect("good").delay(), None);
}
