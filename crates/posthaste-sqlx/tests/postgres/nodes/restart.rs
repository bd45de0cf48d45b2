//! Restarts of PostgreSQL under load, and a connection that becomes silent.

use std::time::{Duration, Instant};

use posthaste::{Outbox, Recorder, Route, Routes};

use crate::nodes::*;
use crate::support::proxy::BlackHole;
use crate::support::*;

crate::cases::restart::restart_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

// T-HALFOPEN, F35
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn silent_listen_connection_costs_no_more_than_the_poll_interval_and_is_replaced() {
    let poll = Duration::from_secs(1);
    let proxy = BlackHole::before(server().get_port()).await;
    let listen = server().port(proxy.port());
    let db = Db::open(4, |builder| builder.listen_on(&listen)).await;
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let engine = Outbox::builder(db.store.clone(), routes).poll_interval(poll);
    let engine = engine.start().expect("a good configuration");
    let writers = db.writer_elsewhere().await;
    let deliver = async |id: &str| {
        let known = recorder.count();
        write(&writers, &db.pool, vec![event_with_payload(id)]).await;
        let committed = Instant::now();
        within_timeout(id, recorder.wait_for(known + 1)).await;
        committed.elapsed()
    };
    wait_until("it listens", async || proxy.accepted() == 1).await;
    deliver("before").await;

    proxy.swallow();
    let silent = Instant::now();
    for n in 0..3 {
        let took = deliver(&format!("silent{n}")).await;
        println!("in silence: {took:?}");
        // The 9 s are for a busy machine. Waiting until the connection is replaced would take about 20 s.
        assert!(took < poll + Duration::from_secs(9), "{took:?}");
    }
    wait_until("it listens again", async || proxy.accepted() == 2).await;
    println!("connected again after {:?}", silent.elapsed());
    assert!(silent.elapsed() < Duration::from_secs(25), "{:?}", silent.elapsed());
    engine.shutdown().await;
    drop_schema(&db.schema).await;
}
