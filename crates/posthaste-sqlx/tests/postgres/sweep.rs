//! Claims on a server that cannot remove dead entries, because a forgotten transaction holds an old snapshot.

use std::time::{Duration, Instant};

use posthaste::store::{Claim, ClaimOrder, LeaseToken, Owner, Store as _};
use posthaste_sqlx::PgStore;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::time::timeout;

use crate::support::*;

/// The ids that one claim brings.
async fn claim(store: &PgStore) -> Vec<String> {
    let (owner, token, lease) = (Owner::from("tester"), LeaseToken::random(), Duration::from_secs(1));
    let (max_bytes, order, skip_recent) = (usize::MAX, ClaimOrder::Due, Duration::ZERO);
    let claim = Claim { owner: &owner, token, lease, limit: 10, max_bytes, order, skip_recent, now: None };
    let claimed = store.claim(&claim).await.expect("a claim");
    claimed.events.iter().map(|leased| leased.event.id().to_string()).collect()
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claims_go_on_where_a_look_from_the_bottom_takes_longer_than_anybody_waits() {
    let db = Db::new().await;
    db.execute("ALTER TABLE outbox_event SET (autovacuum_enabled = off)").await;
    let mut forgotten = administrator().await;
    let snapshot =
        format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {}.outbox_event", db.schema);
    sqlx::raw_sql(AssertSqlSafe(snapshot)).execute(&mut forgotten).await.expect("a snapshot");
    db.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, available_at)
           SELECT 'gone' || n, 'Tested', '{}', now() - n * interval '5 ms' FROM generate_series(1, 200000) AS n;
         UPDATE outbox_event SET status = 1, done_at = now()",
    )
    .await;
    assert!(claim(&db.store).await.is_empty());
    let started = Instant::now();
    assert!(claim(&db.another_store().await).await.is_empty());
    let patience = started.elapsed() / 4;

    // A process that starts in this state has never seen the table otherwise.
    let store = db.another_store().await;
    let brings = async |id: &str| {
        let insert = "INSERT INTO outbox_event (event_id, event_type, payload, available_at) VALUES";
        let due = if id == "old" { "now() - interval '1 hour'" } else { "now()" };
        db.execute(&format!("{insert} ('{id}', 'Tested', '{{}}', {due})")).await;
        until("it is claimed", async || match timeout(patience, claim(&store)).await {
            Ok(ids) => ids.iter().any(|claimed| claimed == id),
            Err(_) => false,
        })
        .await;
        db.execute(&format!("UPDATE outbox_event SET status = 1 WHERE event_id = '{id}'")).await;
    };
    brings("new").await;
    // Below everything that claims have seen.
    brings("old").await;
    forgotten.close().await.expect("the end");
    store.close().await;
    db.close().await;
}
