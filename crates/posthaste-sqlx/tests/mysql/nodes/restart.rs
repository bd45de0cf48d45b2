//! Restarts of MariaDB under load, and ended sessions of MySQL and MariaDB.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste::{Outbox, Recorder, Route, Routes, Status};

use crate::nodes::*;
use crate::support::*;

crate::cases::restart::restart_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

/// Sessions of the engine and of the service are ended at any point of their work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn sessions_killed_thirty_times_under_load_lose_and_invent_nothing() {
    let _alone = alone().await;
    let db = Db::with_pool(8).await;
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(db.store.clone(), routes).lease(Duration::from_secs(2));
    let outbox = outbox.poll_interval(Duration::from_millis(100)).hot_lease(Duration::from_secs(2));
    let outbox = outbox.start().expect("a good configuration");
    let loads = [
        Load::start("hot", &Writer::new(&db.store, &outbox), &db.pool, 3, Duration::from_millis(2)),
        Load::start("cold", &db.plain_writer(), &db.pool, 3, Duration::from_millis(2)),
    ];
    let mut killed = 0;
    for _ in 0..30 {
        within_timeout("events flow", recorder.wait_for(recorder.count() + 20)).await;
        killed += kill_connections(&format!("db = '{}'", db.name)).await;
    }
    let mut journal = Journal::default();
    for load in loads {
        journal.absorb(load.stop().await);
    }
    wait_until("everything is settled", async || {
        db.count(Status::New).await + db.count(Status::Retry).await == 0
    })
    .await;
    outbox.shutdown().await;
    let delivered: BTreeSet<String> = set_of(recorder.ids());
    println!(
        "{killed} sessions killed, {} committed, {} rolled back, {} unknown, {} repeats",
        journal.committed.len(),
        journal.rolled_back.len(),
        journal.unknown.len(),
        recorder.count() - delivered.len(),
    );
    journal.check(delivered.iter().map(String::as_str));
    assert_eq!(delivered, set_of(db.ids().await), "what is there was delivered, and nothing else");
    db.close().await;
}
