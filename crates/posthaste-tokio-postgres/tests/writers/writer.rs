//! Tests beyond the Writer conformance suite: closures, refused and lost COMMITs, writer contexts without a store,
//! PgBouncer.

use posthaste::conformance::Scene;
use posthaste::{Admin as _, BoxError, CommitError, EventId, Outbox, Recorder, Route, Routes};
use posthaste_sql_writer::{Postgres, WriterContext};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_testkit::TransactionEnds;
use posthaste_testkit::proxy::CommitFault;
use posthaste_testkit::server::PgBouncer;
use posthaste_tokio_postgres::{PgTx, PgWriter};
use tokio_postgres::Config;

use crate::support::{Db, broken_commit, connect, event, events, pool, variable, within_timeout};

/// A running engine, and a record of how each transaction ended.
struct Fixture {
    db: Db,
    outbox: Outbox,
    writer: PgWriter,
    recorder: Recorder,
    ends: TransactionEnds,
}

impl Fixture {
    async fn new() -> Self {
        let (db, recorder, ends) = (Db::new().await, Recorder::new(), TransactionEnds::default());
        let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
        let builder = Outbox::builder(db.store.clone(), routes).single_node().hook(ends.clone());
        let outbox = builder.start().expect("a valid configuration");
        let writer = PgWriter::new(&db.store, &outbox);
        Self { db, outbox, writer, recorder, ends }
    }

    async fn delivered(&self) -> Vec<String> {
        within_timeout("the engine is idle", self.outbox.idle()).await.expect("the store works");
        let mut ids: Vec<String> = self.recorder.ids().iter().map(ToString::to_string).collect();
        ids.sort();
        ids
    }

    async fn close(self) {
        self.outbox.shutdown().await;
        self.db.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_commits_on_ok() {
    let w = Fixture::new().await;
    let pool = w.db.pool(1);
    let mut client = pool.get().await.unwrap();
    let result = w.writer.transaction(&mut client, async |tx: &mut PgTx<'_>| {
        tx.execute("INSERT INTO orders DEFAULT VALUES", &[]).await?;
        tx.write(event("a")).await?;
        Ok::<_, BoxError>(17)
    });
    assert_eq!(result.await.unwrap(), 17);
    assert_eq!(w.db.int("SELECT count(*) FROM orders").await, 1);
    assert_eq!(w.delivered().await, ["a"]);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_rolls_back_on_an_error_and_when_it_is_dropped() {
    let w = Fixture::new().await;
    let mut client = w.db.connect().await;
    let failed = w.writer.transaction(&mut client, async |tx: &mut PgTx<'_>| {
        tx.write(event("failed")).await?;
        Err::<(), BoxError>("no".into())
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "no");

    let written = tokio::sync::Notify::new();
    let cancelled = w.writer.transaction(&mut client, async |tx: &mut PgTx<'_>| {
        tx.write(event("cancelled")).await?;
        written.notify_one();
        std::future::pending::<Result<(), BoxError>>().await
    });
    tokio::select! {
        _ = cancelled => unreachable!("it waits for ever"),
        () = written.notified() => {}
    }
    assert_eq!(w.ends.take(), ["rolled back failed", "rolled back cancelled"]);
    assert!(w.db.ids().await.is_empty());
    assert!(w.delivered().await.is_empty());
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_can_be_spawned() {
    let w = Fixture::new().await;
    let (writer, mut client) = (w.writer.clone(), w.db.connect().await);
    let task = tokio::spawn(async move {
        let tx = writer.begin(&mut client).await?;
        let (batch, single) = tokio::join!(tx.write_all(events(&["a", "b"])), tx.write(event("c")));
        batch?;
        single?;
        tx.commit().await?;
        Ok::<_, BoxError>(())
    });
    task.await.unwrap().unwrap();
    assert_eq!(w.delivered().await, ["a", "b", "c"]);
    w.close().await;
}

/// Written once for the transactions of all drivers.
async fn place(mut tx: impl posthaste::writer::Tx, id: &str) -> Result<(), BoxError> {
    tx.write(event(id)).await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn function_over_any_transaction_takes_one_of_tokio_postgres() {
    let w = Fixture::new().await;
    let mut client = w.db.connect().await;
    place(w.writer.begin(&mut client).await.unwrap(), "placed").await.unwrap();
    assert_eq!(w.delivered().await, ["placed"]);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_that_a_deferred_constraint_refuses_is_rolled_back_and_delivers_nothing() {
    let w = Fixture::new().await;
    w.db.execute("CREATE TABLE parent (id int PRIMARY KEY)").await;
    w.db.execute("CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)").await;
    let mut client = w.db.connect().await;
    let tx = w.writer.begin(&mut client).await.unwrap();
    tx.write(event("undone")).await.unwrap();
    tx.batch_execute("INSERT INTO child VALUES (1)").await.unwrap();
    let refused = tx.commit().await;
    assert!(matches!(refused, Err(CommitError::RolledBack(_))), "{refused:?}");
    assert_eq!(w.ends.take(), ["rolled back undone"]);
    let tx = w.writer.begin(&mut client).await.unwrap();
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["kept"]);
    assert_eq!(w.db.ids().await, ["kept"]);
    w.close().await;
}

/// If the reply to COMMIT is lost, the outcome is unknown: no hook runs, and the poller finds the rows.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn lost_commit_is_unknown_and_delivered_only_if_it_applied() {
    let w = Fixture::new().await;
    let (proxy, config) = broken_commit(&w.db.config).await;
    for (fault, id) in [(CommitFault::Lost, "lost"), (CommitFault::ResponseLost, "applied")] {
        let mut client = connect(&config).await;
        let tx = w.writer.begin(&mut client).await.unwrap();
        tx.write(event(id)).await.unwrap();
        proxy.next_commit(fault);
        let result = tx.commit().await;
        assert!(matches!(result, Err(CommitError::Unknown(_))), "{fault:?}: {result:?}");
        assert!(w.ends.take().is_empty(), "{fault:?}");
    }
    within_timeout("the poller delivers it", w.recorder.wait_for(1)).await;
    assert_eq!(w.delivered().await, ["applied"]);
    assert_eq!(w.db.ids().await, ["applied"]);
    w.close().await;
}

/// A pooler replies for a server that it has lost, and does not know the outcome either.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_lost_by_a_pooler_is_unknown_and_delivered_only_if_it_applied() {
    let db = Db::open(PgStoreBuilder::pgbouncer).await;
    let (recorder, ends) = (Recorder::new(), TransactionEnds::default());
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(db.store.clone(), routes).single_node().hook(ends.clone()).start().unwrap();
    let writer = PgWriter::new(&db.store, &outbox);
    let (proxy, way) = broken_commit(&db.config).await;
    let user = way.get_user().unwrap_or("postgres").to_owned();
    let pooler = PgBouncer::before("127.0.0.1", proxy.port(), &user).await;
    let mut config = Config::new();
    config.host("127.0.0.1").port(pooler.port()).user(&user);
    config.dbname(way.get_dbname().unwrap_or("postgres"));
    for (fault, id) in [(CommitFault::Lost, "lost"), (CommitFault::ResponseLost, "applied")] {
        for is_nested in [false, true] {
            let id = format!("{id}-{is_nested}");
            let mut client = connect(&config).await;
            let mut tx = writer.begin(&mut client).await.unwrap();
            if is_nested {
                let savepoint = tx.savepoint().await.unwrap();
                savepoint.write(event(&id)).await.unwrap();
                savepoint.release().await.unwrap();
            } else {
                tx.write(event(&id)).await.unwrap();
            }
            proxy.next_commit(fault);
            let result = tx.commit().await;
            assert!(matches!(result, Err(CommitError::Unknown(_))), "{id}: {result:?}");
            assert!(ends.take().is_empty(), "{id}");
        }
    }
    within_timeout("the poller delivers them", recorder.wait_for(2)).await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(db.ids().await, ["applied-false", "applied-true"]);
    assert_eq!(recorder.count(), 2);
    outbox.shutdown().await;
    db.close().await;
}

/// The server reports a savepoint that was opened by an SQL text too.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn receipt_in_a_raw_savepoint_is_only_a_wake_up() {
    let db = Db::new().await;
    let scene = Scene::start(db.store.clone());
    let writer = PgWriter::new(&db.store, scene.outbox());
    let mut client = db.connect().await;
    let tx = client.transaction().await.unwrap();
    let direct = writer.insert(&tx, event("direct")).await.unwrap();
    tx.batch_execute("SAVEPOINT mine").await.unwrap();
    // A row that exists already is not taken for one that was inserted.
    let nested = writer.insert_all(&tx, events(&["nested-1", "direct", "nested-2"])).await.unwrap();
    assert_eq!(nested.duplicates(), [EventId::from("direct")]);
    let leased =
        "SELECT string_agg(event_id, ',') FROM outbox_event WHERE locked_by IS NOT NULL OR lease_token <> 0";
    assert_eq!(tx.query_one(leased, &[]).await.unwrap().get::<_, &str>(0), "direct");
    tx.commit().await.unwrap();
    drop((direct, nested));
    scene.outbox().shutdown().await;
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn events_written_without_a_store_are_found_by_a_relay() {
    let db = Db::new().await;
    let ends = TransactionEnds::default();
    let context =
        WriterContext::<Postgres>::writer_only().schema(db.schema.clone()).hook(ends.clone()).build();
    let writer = PgWriter::from_context(context.clone());
    let mut client = db.connect().await;
    let tx = writer.begin(&mut client).await.unwrap();
    tx.write(event("by-tx")).await.unwrap();
    tx.commit().await.unwrap();
    let tx = client.transaction().await.unwrap();
    let receipt = writer.insert(&tx, event("by-receipt")).await.unwrap();
    tx.commit().await.unwrap();
    context.committed(receipt);
    assert_eq!(ends.take(), ["committed by-tx", "committed by-receipt"]);

    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let relay = Outbox::builder(db.store.clone(), routes).single_node().start().unwrap();
    within_timeout("the relay delivers", recorder.wait_for(2)).await;
    relay.shutdown().await;
    db.close().await;
}

/// Every transaction may run in another server session, which has prepared no statements.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn writers_behind_pgbouncer_cause_no_error() {
    let db = Db::open(PgStoreBuilder::pgbouncer).await;
    let config = variable("POSTHASTE_TEST_PGBOUNCER_URL").parse().unwrap();
    let (pool, writer) = (pool(&config, 6), db.plain_writer());
    let tasks = (0..6).map(|task| {
        let (pool, writer) = (pool.clone(), writer.clone());
        tokio::spawn(async move {
            for n in 0..20 {
                let mut client = pool.get().await?;
                let tx = writer.begin(&mut client).await?;
                let ids = [format!("{task}-{n}-a"), format!("{task}-{n}-b")];
                let batch = tx.write_all(ids.iter().map(|id| event(id)).collect());
                let single = format!("{task}-{n}-c");
                let (batch, single) = tokio::join!(batch, tx.write(event(&single)));
                batch?;
                single?;
                tx.commit().await?;
            }
            Ok::<_, BoxError>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    assert_eq!(db.store.stats().await.unwrap().new, 360);
    db.close().await;
}
