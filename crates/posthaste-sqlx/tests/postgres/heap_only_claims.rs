//! Claims are heap-only updates: they write no index entry.

use std::time::Duration;

use posthaste::store::{Claim, Owner, Store as _};

use crate::adopt::COLUMN_TYPES;
use crate::cases::adopt::ClassicTable;
use crate::support::*;

/// Enough rows for many pages, whatever their size.
const ROWS: u32 = 2_000;

/// Claims everything in batches, and returns the percentage of heap-only updates.
async fn claim_all(store: &Store, pool: &Pool) -> i64 {
    let count = async |column: &str| -> i64 {
        let sql = format!("SELECT {column} FROM pg_stat_user_tables WHERE relid = 'outbox_event'::regclass");
        text_of(pool, &sql).await.expect("statistics").parse().expect("a number")
    };
    let (updates, hot) = (count("n_tup_upd").await, count("n_tup_hot_upd").await);
    let (owner, mut claimed) = (Owner::random("tester"), 0);
    loop {
        let claim = Claim::new(&owner, Duration::from_secs(600), 500);
        let events = store.claim(&claim).await.expect("a claim").events.len();
        if events == 0 {
            break;
        }
        claimed += events as i64;
    }
    // A session reports its counts when it ends.
    store.close().await;
    wait_until("the server counts the claims", async || count("n_tup_upd").await >= updates + claimed).await;
    (count("n_tup_hot_upd").await - hot) * 100 / claimed
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claims_of_rows_of_every_size_are_heap_only() {
    for payload_bytes in [10, 200, 400, 1_000, 1_500, 2_500, 20_000] {
        let db = Db::new().await;
        let payload = format!("'\"' || repeat('x', {payload_bytes}) || '\"'");
        db.execute(&format!(
            "ALTER TABLE outbox_event ALTER payload SET STORAGE EXTERNAL;
             INSERT INTO outbox_event (event_id, event_type, aggregate_id, payload)
             SELECT gen_random_uuid(), 'Tested', 'order-' || n, {payload} FROM generate_series(1, {ROWS}) AS n"
        ))
        .await;
        let share = claim_all(&db.store, &db.pool).await;
        println!("payloads of {payload_bytes} bytes: {share} %");
        assert!(share >= 90, "payloads of {payload_bytes} bytes: {share} %");
        db.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claims_of_an_adopted_backlog_are_heap_only() {
    let old = ClassicTable::with_rows(COLUMN_TYPES[0]).await;
    let store = old.adopt().await.expect("an outbox");
    let share = claim_all(&store, &old.pool).await;
    assert!(share >= 90, "{share} %");
    old.close().await;
}
