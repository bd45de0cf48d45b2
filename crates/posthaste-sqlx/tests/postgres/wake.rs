//! Wake-ups between processes: a commit in one process wakes the engine of another one, which polls once an hour.

use std::time::Duration;

use posthaste::{Outbox, Recorder, Routes, Source};
use posthaste_sqlx::postgres::Notify;
use posthaste_sqlx::{PgStore, SchemaName, TableName};
use sqlx::{Executor as _, PgPool};

use crate::support::*;

/// A process that writes and another one that delivers. The table has a unique name, because the channel has the name
/// of the table, whatever its schema is.
struct Fixture {
    writing: PgStore,
    delivering: PgStore,
    pool: PgPool,
    outbox: Outbox,
    recorder: Recorder,
    schema: SchemaName,
    table: TableName,
}

impl Fixture {
    async fn new(notify: Notify) -> Self {
        let schema = new_schema();
        let table: TableName = format!("wake_{schema}").parse().expect("a good name");
        let builder = PgStore::builder(&server()).schema(schema.clone()).table(table.clone());
        let writing = builder.clone().notify(notify).migrate().connect().await.expect("the store opens");
        let delivering = builder.connect().await.expect("the store opens");
        let pool = pool_in(&schema, server(), 2).await;
        let recorder = Recorder::new();
        let outbox = engine(&delivering, &recorder).start().expect("a good configuration");
        let fixture = Self { writing, delivering, pool, outbox, recorder, schema, table };
        fixture.until_listening().await;
        // An engine claims when it starts and when it begins to listen. Both are over after two more wake-ups.
        for id in ["first", "second"] {
            fixture.insert_by_hand(id).await;
            fixture.notify_by_hand().await;
            fixture.expect(&[id]).await;
        }
        fixture
    }

    fn sessions(&self) -> String {
        format!("application_name LIKE '%posthaste listen' AND query LIKE 'LISTEN%{}%'", self.table)
    }

    async fn until_listening(&self) {
        let listening = format!("SELECT count(*) FROM pg_stat_activity WHERE {}", self.sessions());
        wait_until("the engine listens", async || {
            text_of(&self.pool, &listening).await.as_deref() == Some("1")
        })
        .await;
    }

    async fn insert_by_hand(&self, id: &str) {
        let sql = format!(
            r#"INSERT INTO "{}" (event_id, event_type, payload) VALUES ('{id}', 'T', '{{}}')"#,
            self.table
        );
        run(&self.pool, &sql).await.expect("good SQL");
    }

    async fn notify_by_hand(&self) {
        run(&self.pool, &format!(r#"NOTIFY "{}""#, self.table)).await.expect("good SQL");
    }

    /// Waits until these events are delivered, in addition to those that were expected before.
    async fn expect(&self, ids: &[&str]) {
        let has = |id: &str| self.recorder.ids().iter().any(|seen| seen.as_str() == id);
        wait_until("they are delivered", async || ids.iter().all(|id| has(id))).await;
    }

    async fn close(self) {
        self.outbox.shutdown().await;
        self.pool.close().await;
        self.writing.close().await;
        self.delivering.close().await;
        drop_schema(&self.schema).await;
    }
}

// S2-19
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_of_a_writer_only_outbox_wakes_an_engine_elsewhere() {
    for notify in [Notify::AfterCommit, Notify::InTransaction] {
        let w = Fixture::new(notify).await;
        let writer = plain_writer(&w.writing);
        for id in ["a", "b", "c"] {
            write(&writer, &w.pool, events(&[id])).await;
            w.expect(&[id]).await;
        }
        write(&writer, &w.pool, events(&["d", "e", "f"])).await;
        w.expect(&["d", "e", "f"]).await;
        assert_eq!(w.recorder.count(), 8, "{notify:?}: once each");
        w.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn receipt_wakes_an_engine_elsewhere_too() {
    let w = Fixture::new(Notify::AfterCommit).await;
    let outbox = Outbox::builder(w.writing.clone(), Routes::new()).writer_only().build().unwrap();
    let writer = Writer::new(&w.writing, &outbox);
    for id in ["a", "b"] {
        let mut tx = w.pool.begin().await.unwrap();
        let receipt = writer.insert(&mut tx, event(id)).await.unwrap();
        tx.commit().await.unwrap();
        outbox.committed(receipt);
        w.expect(&[id]).await;
    }
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn no_process_is_woken_if_notify_is_off_or_nothing_was_committed() {
    let w = Fixture::new(Notify::Off).await;
    let mut ears = sqlx::postgres::PgListener::connect_with(&w.pool).await.unwrap();
    ears.listen(w.table.as_str()).await.unwrap();
    write(&plain_writer(&w.writing), &w.pool, events(&["silent"])).await;
    let mut undone = plain_writer(&w.delivering).begin(&w.pool).await.unwrap();
    undone.write(event("undone")).await.unwrap();
    undone.rollback().await.unwrap();
    // There is no signal for silence.
    let heard = tokio::time::timeout(Duration::from_millis(300), ears.recv()).await;
    assert!(heard.is_err(), "{heard:?}");
    w.notify_by_hand().await;
    w.expect(&["silent"]).await;
    drop(ears);
    w.close().await;
}

/// A process that delivers its own events does not notify: other processes would find nothing.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn hot_path_needs_no_notification_and_sends_none() {
    for notify in [Notify::AfterCommit, Notify::Off] {
        let w = Fixture::new(notify).await;
        let mut ears = sqlx::postgres::PgListener::connect_with(&w.pool).await.unwrap();
        ears.listen(w.table.as_str()).await.unwrap();
        let own = Recorder::new();
        let outbox = engine(&w.writing, &own).start().unwrap();
        write(&Writer::new(&w.writing, &outbox), &w.pool, events(&["hot"])).await;
        within_timeout("the hot path delivers", own.wait_for(1)).await;
        assert_eq!(own.deliveries()[0].source, Source::Hot);
        let heard = tokio::time::timeout(Duration::from_millis(200), ears.recv()).await;
        assert!(heard.is_err(), "{notify:?}: {heard:?}");
        assert_eq!(delivered(&w.recorder), ["first", "second"], "{notify:?}");
        outbox.shutdown().await;
        drop(ears);
        w.close().await;
    }
}

/// Hundreds of commits cause far fewer notifications.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn notifications_of_many_commits_are_few() {
    let w = Fixture::new(Notify::AfterCommit).await;
    let mut ears = sqlx::postgres::PgListener::connect_with(&w.pool).await.unwrap();
    ears.listen(w.table.as_str()).await.unwrap();
    let writer = plain_writer(&w.writing);
    let started = std::time::Instant::now();
    for n in 0..200 {
        write(&writer, &w.pool, events(&[&format!("event{n}")])).await;
    }
    let most = started.elapsed().as_millis() / 5 + 2;
    within_timeout("all are delivered", w.recorder.wait_for(202)).await;
    within_timeout("the first ring is heard", ears.recv()).await.unwrap();
    let mut heard: u128 = 1;
    while tokio::time::timeout(Duration::from_millis(100), ears.recv()).await.is_ok() {
        heard += 1;
    }
    assert!(heard <= most, "{heard} notifications, at most {most} fit into the time");
    drop(ears);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn lost_listening_connection_comes_back_and_nothing_is_missed() {
    let w = Fixture::new(Notify::AfterCommit).await;
    let writer = plain_writer(&w.writing);
    for round in 0..2 {
        assert_eq!(terminate(&w.sessions()).await, 1, "one session listens");
        // No process hears this notification. A process that listens again claims first.
        let (unheard, heard) = (format!("unheard{round}"), format!("heard{round}"));
        write(&writer, &w.pool, events(&[&unheard])).await;
        w.expect(&[&unheard]).await;
        w.until_listening().await;
        write(&writer, &w.pool, events(&[&heard])).await;
        w.expect(&[&heard]).await;
    }
    w.close().await;
}

/// A program in any language can notify: the channel has the name of the table.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn any_program_can_notify() {
    let w = Fixture::new(Notify::Off).await;
    w.insert_by_hand("theirs").await;
    let notify = sqlx::query("SELECT pg_notify($1, 'whatever they say')").bind(w.table.as_str());
    notify.execute(&w.pool).await.unwrap();
    w.expect(&["theirs"]).await;
    w.close().await;
}

/// A claim between the insert and the commit of this row has passed it. The notification of the commit still leads to
/// its delivery.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn event_of_a_long_transaction_is_not_overlooked() {
    let w = Fixture::new(Notify::AfterCommit).await;
    let writer = plain_writer(&w.writing);
    for round in 0..4 {
        let id = format!("late{round}");
        let mut tx = writer.begin(&w.pool).await.unwrap();
        tx.write(event(&id)).await.unwrap();
        // The cached clock of the server is at most a second old.
        tx.execute("SELECT pg_sleep(1.1)").await.unwrap();
        w.outbox.poll_once().await.unwrap();
        tx.commit().await.unwrap();
        w.expect(&[&id]).await;
    }
    w.close().await;
}
