//! Tests with several writers, engines, a purger and two processes on one SQLite file. The program starts itself again
//! as the second process. It is a program of its own, because it records the warnings of the whole process.
//!
//! The soak test runs for 30 seconds, or for `POSTHASTE_TEST_SECONDS`.
#![cfg(feature = "sqlite")]

mod sqlite {
    pub(crate) mod database;
}

mod support;

use sqlite::database;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::config::{PurgeConfig, Retention};
use posthaste::{BoxError, Delivery, Destination, Outbox, Outcome, Profile, Recorder, Route, Routes, Status};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use support::child::{Child, counts, read_commands, report};
use support::log::Log;
use support::*;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Level;

const DB_VAR: &str = "POSTHASTE_TEST_DB";
const ROLE_VAR: &str = "POSTHASTE_TEST_ROLE";
const SECONDS_VAR: &str = "POSTHASTE_TEST_SECONDS";

/// The warnings of the whole process.
struct Warnings(Log);

impl Warnings {
    /// Starts recording the warnings of this process.
    fn keep() -> Self {
        Self(Log::of_process_where(|metadata| {
            metadata.is_event()
                && *metadata.level() <= Level::WARN
                && metadata.target().starts_with("posthaste")
        }))
    }

    /// All warnings except that writers are faster than the engine, which is not a fault.
    fn lines(&self) -> Vec<String> {
        let lines = self.0.lines().into_iter().map(|line| format!("{}{}", line.level, line.fields));
        lines.filter(|line| !line.contains("the hot queue is full")).collect()
    }
}

/// Starts this program again, in this role.
async fn second_process_of(db: &Db, role: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "second_process", "--ignored", "--nocapture"]);
    command.env(DB_VAR, db.path()).env(ROLE_VAR, role);
    Child::spawn(command).await
}

#[test]
#[ignore = "the second process, which the other tests of this file start"]
fn second_process() {
    let (Ok(path), Ok(role)) = (std::env::var(DB_VAR), std::env::var(ROLE_VAR)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let log = Warnings::keep();
        let options = SqliteConnectOptions::new().filename(path);
        let store = SqliteStore::connect(&options).await.expect("the store opens");
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await.expect("a pool");
        let commands = read_commands();
        match role.as_str() {
            "engine" => run_engine(store, pool, commands, 0, Duration::ZERO).await,
            "soak" => run_engine(store, pool, commands, 4, soak_time()).await,
            "holder" => hold_events(store, commands).await,
            "writer" => run_writer(store, pool, commands).await,
            role => panic!("no role {role}"),
        }
        for line in log.lines() {
            report("LOG", &line);
        }
        report("END", "");
    });
}

async fn run_engine(
    store: SqliteStore,
    pool: SqlitePool,
    mut commands: mpsc::UnboundedReceiver<String>,
    writers: usize,
    time: Duration,
) {
    let recorder = Recorder::new();
    let outbox = match writers {
        0 => start_engine(&store, SlowDestination(recorder.clone())),
        _ => start_engine(&store, recorder.clone()),
    };
    report("READY", "");
    let journal = write_for(time, writers, "second", &Writer::new(&store, &outbox), &outbox, &pool).await;
    while commands.recv().await.is_some() {}
    outbox.shutdown().await;
    journal.committed.iter().for_each(|id| report("COMMITTED", id));
    journal.unknown.iter().for_each(|id| report("UNKNOWN", id));
    journal.errors.iter().for_each(|error| report("ERROR", error));
    recorder.ids().iter().for_each(|id| report("DELIVERED", id.as_str()));
}

/// Claims events and never finishes them.
async fn hold_events(store: SqliteStore, mut commands: mpsc::UnboundedReceiver<String>) {
    let routes = Routes::new().handle("Tested", async |delivery: Delivery| {
        report("HOLDS", delivery.id().as_str());
        std::future::pending::<()>().await;
    });
    let _outbox = Outbox::builder(store, routes).lease(Duration::from_secs(2)).start().expect("it starts");
    report("READY", "");
    while commands.recv().await.is_some() {}
}

/// Writes the requested events, like a service without an engine.
async fn run_writer(store: SqliteStore, pool: SqlitePool, mut commands: mpsc::UnboundedReceiver<String>) {
    let writer = Writer::new(
        &store,
        &Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration"),
    );
    report("READY", "");
    while let Some(id) = commands.recv().await {
        let mut tx = writer.begin(&pool).await.expect("a transaction");
        tx.write(event(&id)).await.expect("written");
        tx.commit().await.expect("committed");
        report("COMMITTED", &id);
    }
}

/// Takes a moment for each event, so that another engine could claim it meanwhile.
struct SlowDestination(Recorder);

#[async_trait]
impl Destination for SlowDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut moment = tokio::time::interval(Duration::from_millis(30));
        moment.tick().await;
        moment.tick().await;
        self.0.deliver(batch).await
    }

    fn profile(&self) -> Profile {
        self.0.profile()
    }
}

fn start_engine(store: &SqliteStore, destination: impl Destination) -> Outbox {
    let routes = Routes::new().add(Route::fallback().deliver_to(destination));
    let purge = PurgeConfig::default()
        .with_done(Retention::delete_after(Duration::from_millis(200)))
        .with_interval(Duration::from_millis(300))
        .with_batch(100);
    let outbox = Outbox::builder(store.clone(), routes);
    outbox.purge(purge).workers(8).start().expect("a good configuration")
}

fn soak_time() -> Duration {
    let seconds =
        std::env::var(SECONDS_VAR).ok().map(|seconds| seconds.parse().expect("a number of seconds"));
    Duration::from_secs(seconds.unwrap_or(30))
}

/// The results of the writers.
#[derive(Default)]
struct Journal {
    committed: BTreeSet<String>,
    rolled_back: usize,
    unknown: Vec<String>,
    errors: Vec<String>,
}

/// Runs this many writers concurrently, each as fast as possible, until the time is over.
async fn write_for(
    time: Duration,
    writers: usize,
    name: &str,
    writer: &SqliteWriter,
    outbox: &Outbox,
    pool: &SqlitePool,
) -> Journal {
    let deadline = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for n in 0..writers {
        let (writer, outbox, pool) = (writer.clone(), outbox.clone(), pool.clone());
        let name = format!("{name}-{n}");
        tasks.spawn(async move {
            let mut journal = Journal::default();
            let mut round = 0;
            while Instant::now() < deadline {
                round += 1;
                let ids: Vec<String> = (0..1 + round % 3).map(|i| format!("{name}-{round}-{i}")).collect();
                match transact(round, &ids, &writer, &outbox, &pool).await {
                    Ok(true) => journal.committed.extend(ids),
                    Ok(false) => journal.rolled_back += 1,
                    Err(error) => {
                        journal.unknown.extend(ids);
                        journal.errors.push(format!("{error}: {:?}", error.source()));
                    }
                }
            }
            journal
        });
    }
    let mut all = Journal::default();
    while let Some(journal) = tasks.join_next().await {
        let journal = journal.expect("no writer panics");
        all.committed.extend(journal.committed);
        all.rolled_back += journal.rolled_back;
        all.unknown.extend(journal.unknown);
        all.errors.extend(journal.errors);
    }
    all
}

/// One transaction of a service, with an order and its events. Returns whether it committed.
async fn transact(
    round: usize,
    ids: &[String],
    writer: &SqliteWriter,
    outbox: &Outbox,
    pool: &SqlitePool,
) -> Result<bool, BoxError> {
    let batch: Vec<_> = ids.iter().map(|id| event(id)).collect();
    let order = "INSERT INTO orders (id) VALUES (?1)";
    if round.is_multiple_of(7) {
        // A service that begins its transactions itself.
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query(order).bind(&ids[0]).execute(&mut *tx).await?;
        let receipt = writer.insert_all(&mut tx, batch).await?;
        tx.commit().await?;
        outbox.committed(receipt);
        return Ok(true);
    }
    let mut tx = writer.begin(pool).await?;
    sqlx::query(order).bind(&ids[0]).execute(&mut *tx).await?;
    tx.write_all(batch).await?;
    if round.is_multiple_of(5) {
        tx.rollback().await?;
        return Ok(false);
    }
    tx.commit().await?;
    Ok(true)
}

async fn orders(db: &Db) {
    db.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)").await;
}

// T-SQLITE, F41
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_engines_purgers_and_a_second_process_share_a_file_without_busy_errors() {
    let log = Warnings::keep();
    let db = Db::with_pool(8).await;
    orders(&db).await;
    let recorder = Recorder::new();
    let outbox = start_engine(&db.store, recorder.clone());
    let second = second_process_of(&db, "soak").await;
    let writer = Writer::new(&db.store, &outbox);
    let journal = write_for(soak_time(), 8, "first", &writer, &outbox, &db.pool).await;
    db.until_nothing_waits().await;
    let output = second.stop().await;
    outbox.shutdown().await;

    let take = |word: &str| output.all(word).to_vec();
    let (theirs, their_errors, their_log) = (take("COMMITTED"), take("ERROR"), take("LOG"));
    let ours = delivered(&recorder);
    let deliveries: Vec<String> = ours.iter().cloned().chain(take("DELIVERED")).collect();
    println!(
        "{} and {} committed, {} rolled back here, {} and {} delivered",
        journal.committed.len(),
        theirs.len(),
        journal.rolled_back,
        ours.len(),
        deliveries.len() - ours.len(),
    );
    assert_eq!((journal.errors, their_errors), (vec![], vec![]), "no writer sees an error");
    assert_eq!((log.lines(), their_log), (vec![], vec![]), "no engine complains");
    let committed: BTreeSet<&str> = journal.committed.iter().chain(&theirs).map(String::as_str).collect();
    assert!(!theirs.is_empty() && !journal.committed.is_empty() && journal.rolled_back > 0);
    let counts = counts(&deliveries);
    let delivered: BTreeSet<&str> = counts.keys().copied().collect();
    let lost: Vec<_> = committed.difference(&delivered).take(5).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let invented: Vec<_> = delivered.difference(&committed).take(5).collect();
    assert!(invented.is_empty(), "invented: {invented:?}");
    let purged = db.int("SELECT count(*) FROM outbox_event").await;
    assert!((purged as usize) < committed.len(), "the purger has run");
    println!("{} delivered more than once", counts.values().filter(|count| **count > 1).count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_share_a_file_and_each_event_is_delivered_once() {
    let db = Db::with_pool(4).await;
    let second = second_process_of(&db, "engine").await;
    let write = async |writer: &SqliteWriter, id: &str| {
        db.write(writer, &[id]).await;
    };
    // One event while only the second process has an engine, which may get no turn later on a busy machine.
    let mut committed = BTreeSet::from(["alone".to_owned()]);
    write(&db.plain_writer(), "alone").await;
    db.until_nothing_waits().await;
    let recorder = Recorder::new();
    let outbox = start_engine(&db.store, SlowDestination(recorder.clone()));
    // Half of the events take the hot path in this process; the other half is for any engine.
    let (hot, cold) = (Writer::new(&db.store, &outbox), db.plain_writer());
    for n in 0..300 {
        let ids = [format!("hot{n}"), format!("cold{n}")];
        for (writer, id) in [&hot, &cold].into_iter().zip(&ids) {
            write(writer, id).await;
        }
        committed.extend(ids);
    }
    db.until_nothing_waits().await;
    let theirs = second.stop().await.delivered().to_vec();
    outbox.shutdown().await;
    let ours = delivered(&recorder);
    assert!(!theirs.is_empty() && !ours.is_empty(), "{} here, {} there", ours.len(), theirs.len());
    let counts = counts(ours.iter().chain(&theirs));
    assert_eq!(counts.keys().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>(), committed);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[tokio::test]
async fn commit_of_another_process_wakes_this_one_long_before_its_next_poll() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox = db.start(&recorder); // polls once an hour
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    let mut second = second_process_of(&db, "writer").await;
    for n in 1..=5 {
        let id = format!("event{n}");
        second.send(&id);
        assert_eq!(second.wait_for_report("COMMITTED", n).await.last(), Some(&id));
        within_timeout("it is delivered", recorder.wait_for(n)).await;
    }
    wait_until("all are settled", async || db.count(Status::Done).await == 5).await;
    second.stop().await;
}

#[tokio::test]
async fn event_of_a_process_that_was_killed_is_delivered_by_another() {
    let db = Db::new().await;
    let mut second = second_process_of(&db, "holder").await;
    db.write(&db.plain_writer(), &["a"]).await;
    assert_eq!(second.wait_for_report("HOLDS", 1).await, ["a"]);
    drop(second); // killed
    let recorder = Recorder::new();
    let _outbox = db.engine(&recorder).poll_interval(Duration::from_millis(100)).start().unwrap();
    within_timeout("its lease lapses", recorder.wait_for(1)).await;
    wait_until("it is settled", async || db.count(Status::Done).await == 1).await;
    assert_eq!(db.int("SELECT lost_leases FROM outbox_event").await, 1);
}
