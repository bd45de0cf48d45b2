//! Restarts of a server under load.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use posthaste::{Outbox, Recorder, Route, Routes};
use sqlx::pool::PoolOptions;
use sqlx::{AssertSqlSafe, Row as _};

use crate::nodes::*;
use crate::support::*;

/// The tests of this file.
macro_rules! restart_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::restart, (flavor = "multi_thread", worker_threads = 2):
            server_restarted_ten_times_under_load_loses_and_invents_nothing,
        );
    };
}
pub(crate) use restart_tests;

/// The time limit for the first delivery after the server has restarted.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(5);

async fn start_engine(options: &Options, recorder: &Recorder) -> (Store, Outbox) {
    let store = Store::builder(options).migrate().connect().await.expect("the store opens");
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).lease(Duration::from_secs(2));
    let outbox = outbox.poll_interval(Duration::from_millis(200)).hot_lease(Duration::from_secs(2));
    (store, outbox.start().expect("a good configuration"))
}

async fn ids(pool: &Pool, condition: &str) -> BTreeSet<String> {
    let sql = AssertSqlSafe(format!("SELECT event_id FROM outbox_event WHERE {condition}"));
    let rows = sqlx::query(sql).fetch_all(pool).await.expect("rows");
    rows.iter().map(|row| row.get(0)).collect()
}

/// The time until both engines have delivered something new.
async fn first_deliveries(recorders: &[Recorder; 2]) -> Duration {
    let since = Instant::now();
    let [a, b] = recorders;
    within_timeout("both engines deliver again", async {
        tokio::join!(a.wait_for(a.count() + 1), b.wait_for(b.count() + 1));
    })
    .await;
    since.elapsed()
}

// T-RESTARTPG, T-KILLPG
pub(crate) async fn server_restarted_ten_times_under_load_loses_and_invents_nothing() {
    let _alone = alone().await;
    let mut server = OwnServer::start().await;
    let options = options_of(&server);
    let recorders = [Recorder::new(), Recorder::new()];
    let (store, hot) = start_engine(&options, &recorders[0]).await;
    let (elsewhere, cold) = start_engine(&options, &recorders[1]).await;
    let pool = PoolOptions::<Database>::new().max_connections(8).connect_with(options).await.expect("a pool");
    let writer = Writer::new(&store, &hot);
    let writer_only = Outbox::builder(elsewhere.clone(), Routes::new())
        .writer_only()
        .build()
        .expect("a good configuration");
    let loads = [
        Load::start("hot", &writer, &pool, 3, Duration::from_millis(5)),
        Load::start("cold", &Writer::new(&elsewhere, &writer_only), &pool, 3, Duration::from_millis(5)),
    ];
    first_deliveries(&recorders).await;

    let mut longest = Duration::ZERO;
    for round in 0..10 {
        let end = ServerShutdown::of_round(round);
        server.restart(end).await;
        let took = first_deliveries(&recorders).await;
        println!("{end:?}: {took:?}");
        longest = longest.max(took);
    }
    let mut journal = Journal::default();
    for load in loads {
        journal.absorb(load.stop().await);
    }
    wait_until("everything is settled", async || ids(&pool, "status IN (0, 2)").await.is_empty()).await;
    hot.shutdown().await;
    cold.shutdown().await;

    let delivered: Vec<String> = recorders.iter().flat_map(Recorder::ids).map(|id| id.to_string()).collect();
    let counts = counts(&delivered);
    let there = ids(&pool, "true").await;
    let unknown_there = journal.unknown.intersection(&there).count();
    println!(
        "{} committed, {} rolled back, {} unknown of which {unknown_there} were there, {} repeats",
        journal.committed.len(),
        journal.rolled_back.len(),
        journal.unknown.len(),
        delivered.len() - counts.len(),
    );
    journal.check(counts.keys().copied());
    let delivered: BTreeSet<String> = counts.keys().map(ToString::to_string).collect();
    assert_eq!(delivered, there, "what is there was delivered, and nothing else");
    assert_eq!(ids(&pool, "status <> 1").await, BTreeSet::new());
    assert!(longest < RECOVERY_TIMEOUT, "{longest:?}");
}
