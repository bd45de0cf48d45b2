//! Engines on foreign tables, and outcomes whose write-back was lost.

use std::time::Duration;

use posthaste::store::{
    Lease, LeaseToken, Owner, Park, Purge, Purgeable, Settle, Settled, Settlement, Store as _, Unpark,
    Verdict,
};
use posthaste::{Admin as _, EventId};
use posthaste_sqlx::foreign::{Field, Layout, State};

use crate::cases::foreign::*;
use crate::foreign::{ORDER_SERVICE_SQL, builder, builder_at};
use crate::support::log::Log;
use crate::support::proxy::BlackHole;
use crate::support::*;

/// The tests of this file.
macro_rules! foreign_engine_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::foreign_engine:
            engine_purges_only_if_configured,
            claim_is_full_while_more_rows_are_pending,
            late_outcome_is_not_applied_to_another_row_with_the_same_id,
            store_without_its_server_settles_nothing,
            store_without_room_for_waiting_rows_logs_it_once,
            claim_of_a_foreign_table_ends_before_the_row_that_does_not_fit,
            row_with_the_key_of_a_deleted_one_does_not_get_its_outcome,
            outcome_without_a_remembered_time_is_applied_to_no_row,
            row_without_a_time_is_delivered_and_says_so,
            foreign_row_that_was_put_off_for_too_long_is_failed,
            longest_put_off_limit_counts_for_a_foreign_row,
            parked_foreign_rows_name_their_route,
            error_text_of_an_event_is_not_logged,
        );
    };
}
pub(crate) use foreign_engine_tests;

pub(crate) async fn engine_purges_only_if_configured() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    write_orders(&db, 0, 2).await;
    db.execute("UPDATE outbox SET status = 'SENT', sent_at = created_at").await;
    let purge = Purge::new(Purgeable::Done, Duration::ZERO, 1);
    let store = open(&db, Layout::order_service()).await;
    assert_eq!(store.purge_batch(&purge).await.unwrap(), 0, "the rows are another's");
    assert_eq!(posthaste::Admin::purge(&store, &purge, "ann").await.unwrap(), 1, "an operator may");
    store.close().await;
    let store = builder(&db, Layout::order_service()).purge().connect().await.unwrap();
    assert_eq!(store.purge_batch(&purge).await.unwrap(), 1, "a store opened with purge");
    assert_eq!(store.stats().await.unwrap().done, 0);
    close(&store, &db).await;
}

/// After a claim that is not full, the engine assumes that nothing more is pending, and pauses. Here some rows end
/// while other rows are claimed.
pub(crate) async fn claim_is_full_while_more_rows_are_pending() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 4_000).await;
    let mut held = claim(&store, 50).await;
    for n in 1..80 {
        let (settled, next) = tokio::join!(settle(&store, &held, Verdict::Done), claim(&store, 50));
        assert_eq!((settled, next.events.len()), (vec![Settled::Done; 50], 50), "{n}");
        held = next;
    }
    close(&store, &db).await;
}

/// The first row is delivered and its UPDATE commits, but the reply is lost. So the engine settles it again.
pub(crate) async fn late_outcome_is_not_applied_to_another_row_with_the_same_id() {
    let (db, store) = records().await;
    write_records(&db, 1).await;
    db.execute(&format!(
        "INSERT INTO outbox_record (aggregate_id, event_id, status, topic, payload, schema_version, retries, \
         created_at) VALUES ('{}', '{}', 'PENDING', 'orders', '{{}}', 3, 0, '2026-01-01 00:00:30')",
        uuid(8),
        uuid(0)
    ))
    .await;
    let status = async |aggregate: u32| {
        row(&db, "outbox_record", "status", &format!("aggregate_id = '{}'", uuid(aggregate))).await
    };
    let owner = Owner::from("tester");
    let lapses = claim_for(&owner).with_lease(Duration::ZERO);
    let first = store.claim(&lapses).await.unwrap();
    assert_eq!(ids_of(&first), [uuid(0)], "one after the other");
    db.execute(&format!("UPDATE outbox_record SET status = 'SENT' WHERE aggregate_id = '{}'", uuid(7))).await;

    assert_eq!(claim(&store, 9).await.events.len(), 0, "the outcome of the first is not known");
    assert_eq!(settle(&store, &first, Verdict::Done).await, [Settled::Stale]);
    assert_eq!(status(8).await, "PENDING", "the second was not delivered");
    let second = claim(&store, 9).await;
    assert_eq!(settle(&store, &second, Verdict::Done).await, [Settled::Done]);
    assert_eq!((status(7).await, status(8).await), ("SENT".to_owned(), "SENT".to_owned()));
    close(&store, &db).await;
}

/// The engine does this to find out whether the store refuses one outcome or is unreachable. In the latter case it
/// settles the deliveries later.
pub(crate) async fn store_without_its_server_settles_nothing() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    let proxy = BlackHole::before(server().get_port()).await;
    let store = open(&db, Layout::order_service()).await;
    let cut_off = builder_at(&db, Layout::order_service(), proxy.port()).connect().await.unwrap();
    drop(proxy);
    let lease = Lease::new(EventId::uuid_v7(), -1, LeaseToken::random());
    let verdict = Verdict::Deferred { delay: Duration::ZERO };
    let (owner, probe) = (Owner::from("tester"), [Settlement::new(lease, verdict)]);
    let settle = Settle::new(&owner, &probe);
    assert_eq!(store.settle(&settle).await.unwrap(), [Settled::Stale]);
    assert!(cut_off.settle(&settle).await.is_err(), "the store does not work");
    close(&store, &db).await;
}

pub(crate) async fn store_without_room_for_waiting_rows_logs_it_once() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 10_001).await;
    let lines = Log::of_thread();
    let warnings = || lines.text().matches("nothing is claimed until").count();
    let owner = Owner::from("tester");
    for times in 1..=2 {
        let claimed = claim(&store, 10_000).await;
        assert_eq!((claimed.events.len(), warnings()), (10_000, times - 1));
        let leases = leases_of(&claimed);
        let park = Park::new(&owner, &leases, "mail", LEASE_DURATION);
        store.park(&park).await.unwrap();
        for _ in 0..3 {
            assert_eq!(
                claim(&store, 1).await.events.len(),
                0,
                "one more waits, but there is no place for it"
            );
        }
        assert_eq!(warnings(), times, "{}", lines.text());
        store.unpark(&Unpark::new("mail", 10_000)).await.unwrap();
    }
    assert!(lines.text().contains("waiting=10000"), "{}", lines.text());
    close(&store, &db).await;
}

pub(crate) async fn claim_of_a_foreign_table_ends_before_the_row_that_does_not_fit() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 4).await;
    let payload = format!("\"{}\"", "x".repeat(19_998));
    db.execute(&format!("UPDATE outbox SET payload = '{payload}' WHERE id <> '{}'", uuid(0))).await;
    let owner = Owner::from("tester");
    let bytes = async |max_bytes: usize| {
        let claimed = store.claim(&claim_for(&owner).with_max_bytes(max_bytes)).await.unwrap();
        (ids_of(&claimed), claimed.cut)
    };
    assert_eq!(bytes(10_000).await, (vec![uuid(0)], true), "a large row is not overtaken");
    assert_eq!(bytes(0).await, (vec![uuid(1)], true), "the first one whatever its size");
    assert_eq!(bytes(50_000).await, (vec![uuid(2), uuid(3)], false), "what was left is due as before");
    close(&store, &db).await;
}

/// A key is used for another row after a TRUNCATE that restarts the numbers, or after a server forgot its last number.
pub(crate) async fn row_with_the_key_of_a_deleted_one_does_not_get_its_outcome() {
    let (db, store) = records().await;
    let replace = async || {
        db.execute("DELETE FROM outbox_record").await;
        write_records(&db, 1).await;
        db.execute("UPDATE outbox_record SET created_at = '2026-01-01 00:00:00.000001'").await;
    };
    let dead = Verdict::Dead { reason: "no".to_owned() };
    for verdict in [Verdict::Done, failed(9, Duration::ZERO), failed(1, Duration::ZERO), dead] {
        db.execute("DELETE FROM outbox_record").await;
        write_records(&db, 1).await;
        let first = claim(&store, 1).await;
        replace().await;
        assert_eq!(settle(&store, &first, verdict.clone()).await, [Settled::Stale], "{verdict:?}");
        assert_eq!(record(&db, 0).await, "PENDING 0 -", "{verdict:?}");
        let second = claim(&store, 1).await;
        assert_eq!(settle(&store, &second, Verdict::Done).await, [Settled::Done], "the second was delivered");
        assert_eq!(record(&db, 0).await, "SENT 0 -");
    }
    close(&store, &db).await;
}

/// This happens when the store was unreachable for so long that its rows were forgotten before a delivery was reported.
pub(crate) async fn outcome_without_a_remembered_time_is_applied_to_no_row() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 1).await;
    let claimed = claim(&store, 1).await;
    store.close().await;
    let store = open(&db, Layout::order_service()).await;
    assert_eq!(settle(&store, &claimed, Verdict::Done).await, [Settled::Stale]);
    assert_eq!(order(&db, 0).await, "NEW - unsent", "it may be another row by now, so it is delivered again");
    close(&store, &db).await;
    // If the id is the whole key, it is sufficient.
    let (db, store) = debezium().await;
    let claimed = claim(&store, 1).await;
    store.close().await;
    let store = open(&db, Layout::debezium()).await;
    assert_eq!(settle(&store, &claimed, Verdict::Done).await, [Settled::Done]);
    close(&store, &db).await;
}

pub(crate) async fn row_without_a_time_is_delivered_and_says_so() {
    let db = Db::new().await;
    let text = "VARCHAR(9) NOT NULL";
    db.execute(&format!(
        "CREATE TABLE timeless (id INT PRIMARY KEY, kind {text}, body {text}, state {text}, made TIMESTAMP NULL)"
    ))
    .await;
    let columns = [
        (Field::Id, "id"),
        (Field::EventType, "kind"),
        (Field::Payload, "body"),
        (Field::Status, "state"),
        (Field::CreatedAt, "made"),
    ];
    let values = [(State::Pending, "NEW"), (State::Sent, "SENT"), (State::Failed, "FAILED")];
    let store = open(&db, described("timeless", &columns, &values)).await;
    let dead = Verdict::Dead { reason: "no".to_owned() };
    for (verdict, settled, state) in
        [(Verdict::Done, Settled::Done, "SENT"), (dead, Settled::Dead { attempts: 0 }, "FAILED")]
    {
        db.execute("INSERT INTO timeless VALUES (7, 'A', '{}', 'NEW', NULL)").await;
        let claimed = claim(&store, 9).await;
        assert_eq!(ids_of(&claimed), ["7"]);
        assert_eq!(settle(&store, &claimed, verdict).await, [settled]);
        assert_eq!(row(&db, "timeless", "state", "id = 7").await, state);
        db.execute("DELETE FROM timeless").await;
    }
    close(&store, &db).await;
}

/// The destination was busy; the event may wait for this long.
fn put_off(limit: Duration) -> Verdict {
    let (error, delay) = ("too busy".to_owned(), Duration::ZERO);
    Verdict::Unreachable { error, delay, park: None, give_up_after: Some(limit) }
}

pub(crate) async fn foreign_row_that_was_put_off_for_too_long_is_failed() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 1).await;
    // The time starts with the first such outcome, so this limit has already passed.
    let claimed = claim(&store, 1).await;
    assert_eq!(settle(&store, &claimed, put_off(Duration::ZERO)).await, [Settled::Dead { attempts: 0 }]);
    assert_eq!(order(&db, 0).await, "FAILED too busy unsent");
    close(&store, &db).await;
}

/// A node without a route for an event gives up soon, while the event was waiting for a busy destination of another
/// node.
pub(crate) async fn longest_put_off_limit_counts_for_a_foreign_row() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 2).await;
    let (waits, owner) = ([Settled::Waiting { delay: Duration::ZERO }], Owner::from("tester"));
    let next = async |n: u32, verdict: Verdict| {
        let claimed = claim(&store, 1).await;
        assert_eq!(ids_of(&claimed), [uuid(n)]);
        settle(&store, &claimed, verdict).await
    };
    assert_eq!(next(0, put_off(HOUR)).await, waits);
    assert_eq!(next(0, put_off(Duration::ZERO)).await, waits, "the longer limit counts");
    assert_eq!(order(&db, 0).await, "NEW - unsent");
    assert_eq!(next(0, Verdict::Deferred { delay: Duration::ZERO }).await, waits);
    assert_eq!(next(0, put_off(Duration::ZERO)).await, [Settled::Dead { attempts: 0 }], "it has ended");

    assert_eq!(next(1, put_off(HOUR)).await, waits);
    let leases: Vec<Lease> = claim(&store, 1).await.events.iter().map(|event| event.lease.clone()).collect();
    let park = Park::new(&owner, &leases, "mail", Duration::ZERO);
    assert_eq!(store.park(&park).await.unwrap(), 1);
    assert_eq!(
        next(1, put_off(Duration::ZERO)).await,
        [Settled::Dead { attempts: 0 }],
        "a closed route ends it"
    );
    close(&store, &db).await;
}

pub(crate) async fn parked_foreign_rows_name_their_route() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 2).await;
    let claimed = claim(&store, 2).await;
    let owner = Owner::from("tester");
    let leases: Vec<Lease> = claimed.events.iter().map(|event| event.lease.clone()).collect();
    for (lease, route) in leases.iter().zip(["mail", "search"]) {
        let leases = std::slice::from_ref(lease);
        store.park(&Park::new(&owner, leases, route, HOUR)).await.unwrap();
    }
    assert!(claim(&store, 0).await.parked.iter().eq(["mail", "search"]));
    close(&store, &db).await;
}

/// An error may quote the payload, and a table without a status for failures has no column for it.
pub(crate) async fn error_text_of_an_event_is_not_logged() {
    let (db, store) = debezium().await;
    let log = Log::of_thread();
    let secret = || "refused: card 4111".to_owned();
    settle(&store, &claim(&store, 1).await, Verdict::Dead { reason: secret() }).await;
    let backoff = posthaste::store::Backoff::new(1, [Duration::ZERO]);
    settle(&store, &claim(&store, 1).await, Verdict::Failed { error: secret(), backoff }).await;
    let text = log.text();
    assert_eq!(text.matches("the table has no status for that").count(), 2, "{text}");
    assert!(!text.contains("4111"), "{text}");
    close(&store, &db).await;
}
