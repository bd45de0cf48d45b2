//! Rows of other programs with times at the ends of the calendar and beyond, in every column that has one.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

use posthaste::admin::{Filter, PageRequest, Tolerance};
use posthaste::store::{Purge, Purgeable, Store as _};
use posthaste::{Admin as _, Status};

use crate::cases::rows::deliver_all;
use crate::rows::insert_odd_times;
use crate::support::*;

/// The tests of this file.
macro_rules! calendar_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::calendar:
            times_at_the_ends_of_the_calendar_and_beyond_spoil_nothing,
        );
    };
}

pub(crate) async fn times_at_the_ends_of_the_calendar_and_beyond_spoil_nothing() {
    let db = Db::new().await;
    // More than a batch is due at the first of all times: a claim goes on behind the last one it saw.
    let odd = insert_odd_times(&db, 150).await;
    db.store.stats().await.expect("stats");
    db.store.oldest_pending(None).await.expect("a lag");
    db.store.list(&Filter::default(), &PageRequest::first(500)).await.expect("a list");
    db.store.diagnose(&Tolerance::default()).await.expect("a diagnosis");
    let recorder = deliver_all(&db).await;
    let expected = (0..odd).map(|n| format!("time{n}")).chain((1..=150).map(|n| format!("ever{n}")));
    assert_eq!(set_of(recorder.ids()), set_of(expected));
    assert_eq!((recorder.count(), db.count(Status::Done).await), (odd + 150, odd as u64 + 150));
    for delivery in recorder.deliveries() {
        let _ = (delivery.occurred_at().to_string(), format!("{delivery:?}"));
    }
    let old = Purge { what: Purgeable::Any, older_than: HOUR, archive: true, limit: 500, now: None };
    posthaste::Store::purge(&db.store, &old).await.expect("a purge");
    db.close().await;
}
