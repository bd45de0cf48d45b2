//! Leases and claims: rows that other engines hold stay in the order of claims, and hide nothing.

use std::time::{Duration, Instant};

use posthaste::{Admin as _, Recorder};

use crate::client_rows::{NEVER_SQL, NOW_SQL, numbers_sql};
use crate::support::*;

/// The tests of this file.
macro_rules! lease_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::leases:
            rows_below_the_claim_floor_are_found_behind_many_live_leases,
        );
    };
}
pub(crate) use lease_tests;

/// Rows that another engine holds.
const LIVE_LEASES: u32 = 100_000;

/// A second, with room for a busy machine. Without sweeps such a row would wait for the end of the test.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn rows_below_the_claim_floor_are_found_behind_many_live_leases() {
    let db = Db::new().await;
    find_rows_below_the_floor(&db).await;
    db.close().await;
}

/// A lease lapses, and an event is committed long after it became due. Both are below everything that claims have seen.
pub(crate) async fn find_rows_below_the_floor(db: &Db) {
    for prefix in ["before", "behind"] {
        hold(db, prefix, LIVE_LEASES / 2).await;
        hold(db, &format!("lapsing-{prefix}"), 1).await;
    }
    let recorder = Recorder::new();
    let outbox = db.engine(&recorder).poll_interval(Duration::from_millis(100)).start().unwrap();
    db.write(&db.plain_writer(), &["fresh"]).await;
    within_timeout("the floor is above all leases", recorder.wait_for(1)).await;

    let lapse =
        format!("UPDATE outbox_event SET lease_until = {LONG_AGO_SQL} WHERE event_id LIKE 'lapsing-%'");
    db.execute(&lapse).await;
    arrives(&recorder, "the lapsed leases", 3).await;
    let late = "INSERT INTO outbox_event (event_id, event_type, payload, available_at)";
    db.execute(&format!("{late} VALUES ('late', 'Tested', '{{}}', {LONG_AGO_SQL})")).await;
    arrives(&recorder, "the late event", 4).await;
    wait_until("all but the leased rows are settled", async || {
        let stats = db.store.stats().await.unwrap();
        (stats.leased, stats.due) == (LIVE_LEASES.into(), 0)
    })
    .await;
    outbox.shutdown().await;
}

/// Inserts rows that another engine holds for ever.
async fn hold(db: &Db, prefix: &str, count: u32) {
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload, locked_by, locked_at, lease_token,
      lease_until)";
    let row = format!("concat('{prefix}-', n), 'Tested', '{{}}', 'other', {NOW_SQL}, 7, {NEVER_SQL}");
    db.execute(&format!("{insert} SELECT {row} FROM {}", numbers_sql(count))).await;
}

async fn arrives(recorder: &Recorder, what: &str, count: usize) {
    let since = Instant::now();
    within_timeout(what, recorder.wait_for(count)).await;
    println!("{what}: {:?}", since.elapsed());
    assert!(since.elapsed() < SWEEP_LIMIT, "{what}: {:?}", since.elapsed());
}
