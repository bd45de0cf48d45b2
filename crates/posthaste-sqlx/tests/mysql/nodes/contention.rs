//! Claims, inserts and purges at the same time on one table. (T-MYDEAD, F39)

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use posthaste::store::{
    Backoff, Leased, Owner, Purge, Purgeable, Settle, Settled, Settlement, Store as _, Verdict,
};
use posthaste::{Event, Status};
use posthaste_sqlx::{MySqlStore, MySqlWriter};
use sqlx::MySqlPool;
use tokio::task::JoinSet;

use crate::nodes::alone;
use crate::support::*;

const LOAD_SECONDS: u64 = 60;
const CLAIMERS: usize = 16;
const INSERTERS: usize = 16;

/// One service: a transaction with an order and an event, fifty times a second, so that it waits for locks and not for
/// a core.
async fn insert_until(end: Instant, name: String, writer: MySqlWriter, pool: MySqlPool) -> Vec<Duration> {
    let mut took = Vec::new();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while Instant::now() < end {
        tick.tick().await;
        let id = format!("{name}-{}", took.len());
        let event = Event::builder("Tested").id(id).aggregate("Order", name.clone()).json_text("{}");
        let started = Instant::now();
        let mut tx = writer.begin(&pool).await.expect("a transaction");
        let business = sqlx::query("INSERT INTO orders (total) VALUES (?)").bind(17);
        business.execute(&mut *tx).await.expect("business");
        tx.write(event.build().expect("a good event")).await.expect("no error reaches a writer");
        tx.commit().await.expect("no error reaches a writer");
        took.push(started.elapsed());
    }
    took
}

/// Runs all services for this time. Returns the durations of their transactions, sorted.
async fn insert_all(db: &Db, name: &str, time: Duration) -> Vec<Duration> {
    let (end, writer) = (Instant::now() + time, db.plain_writer());
    let mut inserters = JoinSet::new();
    for n in 0..INSERTERS {
        inserters.spawn(insert_until(end, format!("{name}-{n}"), writer.clone(), db.pool.clone()));
    }
    let mut took: Vec<Duration> = inserters.join_all().await.into_iter().flatten().collect();
    took.sort_unstable();
    took
}

fn quantile(sorted: &[Duration], share: f64) -> Duration {
    sorted[(sorted.len() as f64 * share) as usize]
}

/// A node without an engine: claims and settles immediately, every tenth event as failed. Returns the events that it
/// settled as done.
async fn claim_until(end: Instant, store: MySqlStore) -> Vec<String> {
    let owner = Owner::random("node");
    let mut done = Vec::new();
    loop {
        let claim = claim_for(&owner).with_limit(100);
        let claimed = store.claim(&claim).await.expect("no error escapes a claim").events;
        if claimed.is_empty() {
            if Instant::now() > end {
                return done;
            }
            tokio::time::interval_at(tokio::time::Instant::now() + CLAIM_INTERVAL, CLAIM_INTERVAL)
                .tick()
                .await;
        }
        let settlements: Vec<Settlement> = claimed.iter().map(settlement).collect();
        let settle = Settle::new(&owner, &settlements);
        let settled = store.settle(&settle).await.expect("no error escapes a settlement");
        for (leased, settled) in claimed.iter().zip(settled) {
            match settled {
                Settled::Done => done.push(leased.event.id().to_string()),
                Settled::Retry { .. } => {}
                other => panic!("{}: {other:?}", leased.event.id()),
            }
        }
    }
}

/// The interval at which a store polls for due rows.
const CLAIM_INTERVAL: Duration = Duration::from_millis(20);

/// Every tenth event fails at first.
fn settlement(leased: &Leased) -> Settlement {
    let fails = leased.attempts == 0 && leased.event.id().as_str().ends_with('7');
    let backoff = Backoff::new(5, [Duration::from_millis(20)]);
    let verdict = match fails {
        true => Verdict::Failed { error: "not yet".to_owned(), backoff },
        false => Verdict::Done,
    };
    Settlement::new(leased.lease.clone(), verdict)
}

async fn purge_until(end: Instant, store: MySqlStore) -> u64 {
    let purge = Purge::new(Purgeable::Done, Duration::from_secs(2), 500);
    let mut purged = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    while Instant::now() < end {
        tick.tick().await;
        purged += store.purge_batch(&purge).await.expect("no error escapes a purge");
    }
    purged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn claimers_inserters_and_purger_never_fail_each_other() {
    let _alone = alone().await;
    let db = Db::with_pool(INSERTERS as u32).await;
    db.execute("CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, total INT NOT NULL)").await;
    // The durations without any other load.
    let alone = insert_all(&db, "alone", Duration::from_secs(5)).await;
    let mut claimers = JoinSet::new();
    let end = Instant::now() + Duration::from_secs(LOAD_SECONDS);
    let mut stores = Vec::new();
    for _ in 0..CLAIMERS {
        let store = db.place.open().await;
        claimers.spawn(claim_until(end, store.clone()));
        stores.push(store);
    }
    let purger = tokio::spawn(purge_until(end, db.store.clone()));
    let took = insert_all(&db, "together", Duration::from_secs(LOAD_SECONDS)).await;
    let mut done: Vec<String> = claimers.join_all().await.into_iter().flatten().collect();
    let purged = purger.await.expect("no panic");
    // Events that failed last become due when all nodes have ended.
    wait_until("everything is settled", async || {
        done.extend(claim_until(end, db.store.clone()).await);
        db.count(Status::New).await + db.count(Status::Retry).await == 0
    })
    .await;

    let deadlocks: u64 = stores.iter().chain([&db.store]).map(MySqlStore::repeated_calls).sum();
    println!(
        "{} transactions, p50 {:?}, p99 {:?}, max {:?}, p99 alone {:?}; {purged} purged; {deadlocks} calls repeated \
         after a deadlock or a lock",
        took.len(),
        quantile(&took, 0.5),
        quantile(&took, 0.99),
        took.last(),
        quantile(&alone, 0.99),
    );
    assert_eq!(done.len(), took.len() + alone.len(), "each event is done exactly once");
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), done.len());
    assert_eq!(db.count(Status::Dead).await, 0);
    assert!(purged > 0);
    for store in stores {
        store.close().await;
    }
    db.close().await;
}
