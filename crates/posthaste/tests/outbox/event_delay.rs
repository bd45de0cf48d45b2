//! How long an event waits when it is written.

use std::time::{Duration, SystemTime};

use posthaste::{Event, Recorder, Source};

use crate::hot_path::{quiet_outbox, started};
use crate::support::*;

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

/// Its time had come when it was written: a destination sees no more of it than of an event that was claimed.
#[tokio::test(start_paused = true)]
async fn event_whose_time_has_come_is_delivered_hot_as_if_it_had_none() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = quiet_outbox(&store, &recorder);
    started(&store).await;
    let an_hour_ago = SystemTime::now() - HOUR;
    let event =
        Event::builder("Made").json_text("{}").occurred_at(an_hour_ago - HOUR).available_at(an_hour_ago);
    commit(&store.inner, &outbox, vec![event.build().expect("a good event")]).await;
    eventually(secs(1), || recorder.count() == 1).await;
    let delivery = recorder.deliveries().remove(0);
    assert_eq!((delivery.source, delivery.available_at(), delivery.is_delayed()), (Source::Hot, None, false));
}
