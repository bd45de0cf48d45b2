//! Delays of an event, when it is written.

use std::time::{Duration, SystemTime};

use posthaste::{Event, EventError, Recorder, Source, Timestamp};

use crate::event::{assert_refused, at, valid_event};
use crate::hot_path::{quiet_outbox, started};
use crate::support::*;

/// An import of past events: they are due by their delay, not by when they happened.
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

/// The event was already due when it was written, so a destination sees the same as for a claimed event.
#[tokio::test(start_paused = true)]
async fn event_whose_delay_is_over_is_delivered_hot() {
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

// S3-41
#[test]
fn available_at_and_deliver_after_exclude_each_other() {
    let builder = || valid_event().occurred_at(at(100));
    assert_refused!(builder().available_at(at(160)).deliver_after(secs(60)), EventError::TwoDelays);
    assert_refused!(builder().deliver_after(secs(60)).available_at(at(160)), EventError::TwoDelays);
    assert_refused!(builder().deliver_after(Duration::ZERO).available_at(at(1)), EventError::TwoDelays);
}

// S3-42
#[test]
fn deliver_after_must_be_longer_than_zero() {
    assert_refused!(valid_event().deliver_after(Duration::ZERO), EventError::ZeroDelay);
    let event = valid_event().deliver_after(Duration::from_micros(1)).build().expect("longer than zero");
    assert!(event.is_delayed());
}

// S3-43, S3-46
#[test]
fn available_at_must_not_be_before_occurred_at() {
    let with = |micros: i64| {
        valid_event().occurred_at(at(100)).available_at(Timestamp::from_micros(100_000_000 + micros)).build()
    };
    assert!(matches!(with(-1), Err(EventError::AvailableBeforeOccurred)));
    let equal = with(0).expect("the same instant");
    assert_eq!((equal.is_delayed(), equal.delay()), (false, None));
    let later = with(1).expect("later");
    assert_eq!((later.is_delayed(), later.delay()), (true, None), "its time came long ago");
}

// S3-43: what counts is the time the event occurred, not the time it is built.
#[test]
fn available_at_is_measured_against_a_default_occurred_at_too() {
    assert_refused!(valid_event().available_at(at(0)), EventError::AvailableBeforeOccurred);
    let event = valid_event().available_at(SystemTime::now() + secs(3600)).build().expect("in an hour");
    assert!(event.is_delayed());
}

// S3-36, S3-45
#[test]
fn deliver_after_resolves_to_occurred_at_plus_the_delay() {
    for builder in [
        valid_event().deliver_after(secs(60)).occurred_at(at(100)),
        valid_event().occurred_at(at(100)).deliver_after(secs(60)),
    ] {
        let event = builder.build().expect("good");
        assert_eq!(event.available_at(), Some(at(160)));
        assert!(event.is_delayed());
    }
    let event = valid_event().deliver_after(secs(60)).build().expect("good");
    assert_eq!(event.available_at(), Some(event.occurred_at() + secs(60)), "the default one as well");
}

// S3-45
#[test]
fn longest_delay_saturates() {
    let event = valid_event().occurred_at(at(100)).deliver_after(Duration::MAX).build().expect("good");
    assert_eq!(event.available_at(), Some(Timestamp::from_micros(i64::MAX)));
    assert!(event.delay().expect("delayed") > secs(200_000 * 365 * 24 * 3600));
}
