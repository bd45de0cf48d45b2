//! Connections that break around a COMMIT: the caller learns what is known, no hook runs on a guess, and the poller
//! decides by the rows in the table.

use std::time::Duration;

use posthaste::{CommitError, Outbox, Recorder, Source};
use posthaste_sqlx::PgWriter;
use posthaste_sqlx::postgres::PgStoreBuilder;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor as _, PgPool};

use crate::support::proxy::{BrokenCommit, CommitFault};
use crate::support::server::PgBouncer;
use crate::support::*;

struct Fixture {
    db: Db,
    outbox: Outbox,
    writer: PgWriter,
    recorder: Recorder,
    log: HookCalls,
    proxy: BrokenCommit,
    /// The pool of the service, behind a proxy that breaks connections.
    pool: PgPool,
}

impl Fixture {
    async fn new() -> Self {
        let db = Db::new().await;
        let (recorder, log) = (Recorder::new(), HookCalls::default());
        let outbox = db.engine(&recorder).hook(log.clone()).start().expect("a good configuration");
        let writer = Writer::new(&db.store, &outbox);
        let proxy = BrokenCommit::to(server().get_host(), server().get_port()).await;
        let pool = pool_in(&db.schema, options_by(proxy.port()), 1).await;
        Self { db, outbox, writer, recorder, log, proxy, pool }
    }

    /// Writes one event and commits, with this fault.
    async fn write(&self, id: &str, fault: CommitFault) -> Result<(), CommitError> {
        let mut tx = self.writer.begin(&self.pool).await.expect("a transaction");
        tx.write(event(id)).await.expect("written");
        self.proxy.next_commit(fault);
        tx.commit().await
    }

    async fn close(self) {
        self.outbox.shutdown().await;
        self.pool.close().await;
        self.db.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_whose_reply_is_lost_is_unknown_and_the_poller_delivers_it() {
    let w = Fixture::new().await;
    let result = w.write("committed", CommitFault::ResponseLost).await;
    assert!(matches!(result, Err(CommitError::Unknown(_))), "{result:?}");
    within_timeout("the poller delivers it", w.recorder.wait_for(1)).await;
    assert_eq!(w.recorder.deliveries()[0].source, Source::Cold);
    within_timeout("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(delivered(&w.recorder), ["committed"]);
    assert_eq!(w.log.lines(), ["before_write committed", "after_write committed"], "the result was unknown");
    // The advice of the error is safe.
    w.write("committed", CommitFault::Passes).await.expect("the connection works again");
    within_timeout("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(delivered(&w.recorder), ["committed"], "once");
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_that_never_arrives_is_unknown_and_nothing_is_delivered() {
    let w = Fixture::new().await;
    let result = w.write("lost", CommitFault::Lost).await;
    assert!(matches!(result, Err(CommitError::Unknown(_))), "{result:?}");
    assert_eq!(w.log.lines(), ["before_write lost", "after_write lost"], "the result was unknown");
    w.write("kept", CommitFault::Passes).await.expect("the connection works again");
    within_timeout("it is delivered", w.recorder.wait_for(1)).await;
    assert_eq!(w.db.ids().await, ["kept"]);
    within_timeout("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(delivered(&w.recorder), ["kept"]);
    // As the error advises: again with the same id.
    w.write("lost", CommitFault::Passes).await.expect("the connection works again");
    within_timeout("it is delivered", w.recorder.wait_for(2)).await;
    assert_eq!(delivered(&w.recorder), ["kept", "lost"]);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn many_lost_commits_neither_lose_nor_invent_an_event() {
    let w = Fixture::new().await;
    for n in 0..30 {
        let fault = [CommitFault::Passes, CommitFault::Lost, CommitFault::ResponseLost][n % 3];
        let result = w.write(&format!("event{n}"), fault).await;
        match fault {
            CommitFault::Passes => result.expect("the connection works"),
            CommitFault::Lost | CommitFault::ResponseLost => {
                assert!(matches!(result, Err(CommitError::Unknown(_))), "{n}: {result:?}");
            }
        }
    }
    let expected: Vec<String> = (0..30).filter(|n| n % 3 != 1).map(|n| format!("event{n}")).collect();
    within_timeout("all are delivered", w.recorder.wait_for(expected.len())).await;
    within_timeout("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(w.db.ids().await, expected);
    assert_eq!((set_of(w.recorder.ids()), w.recorder.count()), (set_of(&expected), 20), "once each");
    assert_eq!((w.log.of("after_commit").len(), w.log.of("after_rollback").len()), (10, 0));
    w.close().await;
}

/// A pooler that has lost its server replies, and knows no more than the client.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_whose_reply_a_pooler_lost_is_unknown_and_the_poller_delivers_it() {
    let db = Db::open(1, PgStoreBuilder::pgbouncer).await;
    let (recorder, log) = (Recorder::new(), HookCalls::default());
    let engine = db.engine(&recorder).poll_interval(Duration::from_millis(50)).hook(log.clone());
    let outbox = engine.start().expect("a good configuration");
    let proxy = BrokenCommit::to(server().get_host(), server().get_port()).await;
    let pooler = PgBouncer::before("127.0.0.1", proxy.port(), server().get_username()).await;
    let options = options_by(pooler.port()).extra_float_digits(None);
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await.expect("the pool opens");
    for (id, fault) in
        [("kept", CommitFault::Passes), ("lost", CommitFault::Lost), ("committed", CommitFault::ResponseLost)]
    {
        let mut tx = Writer::new(&db.store, &outbox).begin(&pool).await.expect("a transaction");
        tx.write(event(id)).await.expect("written");
        proxy.next_commit(fault);
        let result = tx.commit().await;
        match fault {
            CommitFault::Passes => result.expect("the connection works"),
            _ => assert!(matches!(result, Err(CommitError::Unknown(_))), "{id}: {result:?}"),
        }
    }
    within_timeout("the poller delivers it", recorder.wait_for(2)).await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(delivered(&recorder), ["committed", "kept"]);
    assert_eq!(
        (log.of("after_commit").len(), log.of("after_rollback").len()),
        (1, 0),
        "the result was unknown"
    );
    outbox.shutdown().await;
    pool.close().await;
    db.close().await;
}

/// An error of a deferred trigger is a reply of the server, whatever its code is.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_that_a_deferred_trigger_refuses_is_rolled_back() {
    let w = Fixture::new().await;
    w.db.execute(
        "CREATE TABLE orders (id int);
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
         CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    .await;
    let mut tx = w.writer.begin(&w.pool).await.unwrap();
    tx.execute("INSERT INTO orders VALUES (1)").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    let result = tx.commit().await;
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}

/// The proof finds that the session has ended, so the server has rolled back.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn session_that_is_ended_before_the_commit_is_rolled_back() {
    let w = Fixture::new().await;
    let mut tx = w.writer.begin(&w.pool).await.unwrap();
    tx.write(event("undone")).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(terminate(&format!("pid = {pid}")).await, 1);
    let result = tx.commit().await;
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");
    w.write("kept", CommitFault::Passes).await.expect("the pool has another connection");
    within_timeout("it is delivered", w.recorder.wait_for(1)).await;
    within_timeout("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!((delivered(&w.recorder), w.db.ids().await), (vec!["kept".into()], vec!["kept".into()]));
    w.close().await;
}

/// A server that aborts a transaction by itself.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_that_the_server_gave_up_is_rolled_back() {
    let w = Fixture::new().await;
    let mut tx = w.writer.begin(&w.pool).await.unwrap();
    tx.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    wait_until("the server gives up", async || w.db.int(&is_there).await == 0).await;
    let result = tx.commit().await;
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}
