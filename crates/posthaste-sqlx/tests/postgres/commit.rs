//! Connections that are lost around a COMMIT: the caller is told what is known, no hook runs on a guess,
//! and the poller decides by what is in the table.

use posthaste::{CommitError, Outbox, Recorder, Source};
use posthaste_sqlx::PgWriter;
use sqlx::{Executor as _, PgPool};

use crate::support::proxy::{Fate, Proxy};
use crate::support::*;

struct World {
    db: Db,
    outbox: Outbox,
    writer: PgWriter,
    recorder: Recorder,
    log: Log,
    proxy: Proxy,
    /// The service's pool, whose way to the server breaks.
    pool: PgPool,
}

impl World {
    async fn new() -> Self {
        let db = Db::new().await;
        let (recorder, log) = (Recorder::new(), Log::default());
        let outbox = db.engine(&recorder).hook(log.clone()).start().expect("a good configuration");
        let writer = db.store.writer(&outbox);
        let proxy = Proxy::to(&server()).await;
        let pool = pool_in(&db.schema, proxy.options.clone(), 1).await;
        Self { db, outbox, writer, recorder, log, proxy, pool }
    }

    /// Writes one event and commits, with this fate of the COMMIT.
    async fn write(&self, id: &str, fate: Fate) -> Result<(), CommitError> {
        let mut tx = self.writer.begin(&self.pool).await.expect("a transaction");
        tx.write(event(id)).await.expect("written");
        self.proxy.next_commit(fate);
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
async fn commit_whose_answer_is_lost_is_unknown_and_the_poller_delivers_it() {
    let w = World::new().await;
    let answer = w.write("committed", Fate::AnswerLost).await;
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    soon("the poller delivers it", w.recorder.wait_for(1)).await;
    assert_eq!(w.recorder.deliveries()[0].source, Source::Cold);
    soon("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(delivered(&w.recorder), ["committed"]);
    assert_eq!(w.log.lines(), ["before_write committed", "after_write committed"], "nobody knew");
    // What the error says to do is safe.
    w.write("committed", Fate::Passes).await.expect("the way is whole again");
    soon("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(delivered(&w.recorder), ["committed"], "once");
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_that_never_arrives_is_unknown_and_nothing_is_delivered() {
    let w = World::new().await;
    let answer = w.write("lost", Fate::Lost).await;
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    assert_eq!(w.log.lines(), ["before_write lost", "after_write lost"], "nobody knew");
    w.write("kept", Fate::Passes).await.expect("the way is whole again");
    soon("it is delivered", w.recorder.wait_for(1)).await;
    assert_eq!(w.db.ids().await, ["kept"]);
    soon("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(delivered(&w.recorder), ["kept"]);
    // As the error says: again with the same id.
    w.write("lost", Fate::Passes).await.expect("the way is whole again");
    soon("it is delivered", w.recorder.wait_for(2)).await;
    assert_eq!(delivered(&w.recorder), ["kept", "lost"]);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn many_lost_commits_neither_lose_nor_invent_an_event() {
    let w = World::new().await;
    for n in 0..30 {
        let fate = [Fate::Passes, Fate::Lost, Fate::AnswerLost][n % 3];
        let answer = w.write(&format!("event{n}"), fate).await;
        match fate {
            Fate::Passes => answer.expect("the way is whole"),
            Fate::Lost | Fate::AnswerLost => {
                assert!(matches!(answer, Err(CommitError::Unknown(_))), "{n}: {answer:?}");
            }
        }
    }
    let expected: Vec<String> = (0..30).filter(|n| n % 3 != 1).map(|n| format!("event{n}")).collect();
    soon("all are delivered", w.recorder.wait_for(expected.len())).await;
    soon("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!(w.db.ids().await, expected);
    assert_eq!((set_of(w.recorder.ids()), w.recorder.count()), (set_of(&expected), 20), "once each");
    assert_eq!((w.log.of("after_commit").len(), w.log.of("after_rollback").len()), (10, 0));
    w.close().await;
}

/// The proof finds nobody there, so the server has rolled back.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn session_that_is_ended_before_the_commit_is_rolled_back() {
    let w = World::new().await;
    let mut tx = w.writer.begin(&w.pool).await.unwrap();
    tx.write(event("undone")).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(terminate(&format!("pid = {pid}")).await, 1);
    let answer = tx.commit().await;
    assert!(matches!(answer, Err(CommitError::RolledBack(_))), "{answer:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");
    w.write("kept", Fate::Passes).await.expect("the pool has another connection");
    soon("it is delivered", w.recorder.wait_for(1)).await;
    soon("the engine is idle", w.outbox.idle()).await.unwrap();
    assert_eq!((delivered(&w.recorder), w.db.ids().await), (vec!["kept".into()], vec!["kept".into()]));
    w.close().await;
}

/// A server that gives up a transaction by itself.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_that_the_server_gave_up_is_rolled_back() {
    let w = World::new().await;
    let mut tx = w.writer.begin(&w.pool).await.unwrap();
    tx.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    until("the server gives up", async || w.db.int(&is_there).await == 0).await;
    let answer = tx.commit().await;
    assert!(matches!(answer, Err(CommitError::RolledBack(_))), "{answer:?}");
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}
