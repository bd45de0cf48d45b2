//! Events that appear below the claim floor, old snapshots, and slow handlers: normal conditions of a PostgreSQL
//! outbox.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::config::PurgeConfig;
use posthaste::store::OnDone;
use posthaste::{Delivery, Destination, Outbox, Outcome, Profile, Recorder, Route, Routes};
use posthaste_sqlx::{PgStore, PgTx, PgWriter};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Row as _};
use tokio::sync::watch;

use crate::nodes::*;
use crate::support::*;

/// Records when each event arrived first.
#[derive(Clone)]
struct Arrivals {
    recorder: Recorder,
    at: watch::Receiver<HashMap<String, Instant>>,
}

impl Arrivals {
    fn new() -> Self {
        let (sender, at) = watch::channel(HashMap::new());
        let recorder = Recorder::with(move |delivery| {
            sender.send_modify(|at| {
                at.entry(delivery.id().to_string()).or_insert_with(Instant::now);
            });
            Outcome::done()
        });
        Self { recorder, at }
    }

    fn at(&self, id: &str) -> Option<Instant> {
        self.at.borrow().get(id).copied()
    }

    /// Waits until this event has arrived. Returns the time of its arrival.
    async fn have(&self, id: &str) -> Instant {
        let mut at = self.at.clone();
        within_timeout(id, at.wait_for(|at| at.contains_key(id))).await.expect("the recorder lives")[id]
    }

    /// The longest time from the commit of one of these events to its arrival.
    async fn longest(&self, committed: &HashMap<String, Instant>) -> Duration {
        let mut longest = Duration::ZERO;
        for (id, committed) in committed {
            longest = longest.max(self.have(id).await.saturating_duration_since(*committed));
        }
        longest
    }
}

fn start_engine(store: &PgStore, recorder: &Recorder, poll: Duration) -> Outbox {
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes);
    outbox.poll_interval(poll).start().expect("a good configuration")
}

async fn begin_with(writer: &PgWriter, pool: &PgPool, id: &str) -> PgTx {
    let mut tx = writer.begin(pool).await.expect("a transaction");
    tx.write(event_with_payload(id)).await.expect("written");
    tx
}

// T-GAP, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn event_of_a_transaction_that_commits_late_is_delivered_immediately() {
    let _alone = alone().await;
    let db = Db::with_pool(8).await;
    let arrivals = Arrivals::new();
    // The engine does not poll: the notification of the commit must be sufficient.
    let outbox = start_engine(&db.store, &arrivals.recorder, HOUR);
    let writer = db.writer_elsewhere().await;
    let mut open = Vec::new();
    for n in 0..100 {
        open.push(begin_with(&writer, &db.pool, &format!("late{n}")).await);
        if open.len() < 4 {
            continue;
        }
        let late = open.remove(0);
        let id = format!("late{}", n - 3);
        let early = begin_with(&writer, &db.pool, &format!("early{n}")).await;
        early.commit().await.expect("committed");
        arrivals.have(&format!("early{n}")).await;
        late.commit().await.expect("committed");
        arrivals.have(&id).await;
    }
    drop(open);
    outbox.shutdown().await;
    drop_schema(&db.schema).await;
}

// T-GAP, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn however_transactions_interleave_everything_committed_is_delivered() {
    let _alone = alone().await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let db = Db::with_pool(8).await;
    let arrivals = Arrivals::new();
    let outbox = start_engine(&db.store, &arrivals.recorder, Duration::from_millis(500));
    let writer = db.writer_elsewhere().await;
    let mut open: Vec<Option<(PgTx, String)>> = (0..8).map(|_| None).collect();
    let (mut committed, mut rolled_back) = (HashMap::new(), BTreeSet::new());
    for step in 0..200 * 16 {
        let slot = &mut open[random.usize(0..8)];
        match slot.take() {
            None => {
                let id = format!("e{step}");
                *slot = Some((begin_with(&writer, &db.pool, &id).await, id));
            }
            Some((tx, id)) if random.u8(0..10) == 0 => {
                tx.rollback().await.expect("rolled back");
                rolled_back.insert(id);
            }
            Some((tx, id)) => {
                tx.commit().await.expect("committed");
                committed.insert(id, Instant::now());
            }
        }
    }
    drop(open);
    let longest = arrivals.longest(&committed).await;
    outbox.shutdown().await;
    println!("{} committed, {} rolled back, {longest:?} at most", committed.len(), rolled_back.len());
    assert!(rolled_back.iter().all(|id| arrivals.at(id).is_none()), "no rolled-back event is delivered");
    assert_eq!(arrivals.recorder.count(), committed.len(), "each exactly once");
    // A row that the claims passed would wait for minutes; on a busy machine the rest is waiting for a processor.
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    drop_schema(&db.schema).await;
}

/// A forgotten transaction: dead rows cannot be removed while it is open.
async fn hold_a_snapshot(db: &Db) -> PgConnection {
    let mut connection = administrator().await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    sqlx::raw_sql(begin).execute(&mut connection).await.expect("a snapshot");
    let count = AssertSqlSafe(format!(r#"SELECT count(*) FROM "{}".outbox_event"#, db.schema));
    sqlx::raw_sql(count).execute(&mut connection).await.expect("a snapshot");
    connection
}

/// Inserts events as a producer that knows only the table, due at a time of its choice.
async fn insert_raw(connection: &mut PgConnection, db: &Db, prefix: &str, count: usize, due: &str) {
    let sql = format!(
        r#"INSERT INTO "{}".outbox_event (event_id, event_type, payload, available_at)
           SELECT '{prefix}-' || n, 'Tested', to_json('{prefix}-' || n)::text, {due}
           FROM generate_series(1, {count}) AS n"#,
        db.schema
    );
    run(connection, &sql).await.expect("inserted");
}

fn note(committed: &mut HashMap<String, Instant>, prefix: &str, count: usize) {
    let now = Instant::now();
    committed.extend((1..=count).map(|n| (format!("{prefix}-{n}"), now)));
}

// The claim floor, with a load that keeps it moving and a snapshot that makes sweeps rare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn events_that_appear_below_the_claim_floor_are_delivered_within_seconds() {
    let _alone = alone().await;
    let db = Db::with_pool(8).await;
    let arrivals = Arrivals::new();
    let outbox = start_engine(&db.store, &arrivals.recorder, Duration::from_millis(200));
    let snapshot = hold_a_snapshot(&db).await;
    let writer = db.writer_elsewhere().await;
    let load = Load::start("load", &writer, &db.pool, 4, Duration::from_millis(1));
    let mut producer = administrator().await;
    let mut committed = HashMap::new();

    // A producer whose events were due an hour ago, or a server whose clock was set back, at a high rate.
    for round in 0..400 {
        let (prefix, due) = match round % 2 {
            0 => (format!("hour{round}"), "now() - interval '1 hour'"),
            _ => (format!("back{round}"), "now() - interval '10 s' + n * interval '1 ms'"),
        };
        insert_raw(&mut producer, &db, &prefix, 5, due).await;
        note(&mut committed, &prefix, 5);
    }
    println!("due in the past: {:?} at most", arrivals.longest(&committed).await);

    // Nodes that die while they hold leases.
    for round in 0..5 {
        let prefix = format!("held{round}");
        let mut claimer = administrator().await;
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut claimer).await.unwrap();
        // They must be locked before they are due, also on a busy machine.
        insert_raw(&mut producer, &db, &prefix, 20, "now() + interval '2 s'").await;
        let claim = format!(
            r#"BEGIN; UPDATE "{}".outbox_event SET lease_until = now() + interval '30 s', locked_by = 'gone'
               WHERE event_id LIKE '{prefix}-%'"#,
            db.schema
        );
        sqlx::raw_sql(AssertSqlSafe(claim)).execute(&mut claimer).await.expect("locked");
        // When an event with a later time has arrived, claims have passed the locked events.
        insert_raw(&mut producer, &db, &format!("past{round}"), 1, "now() + interval '2050 ms'").await;
        arrivals.have(&format!("past{round}-1")).await;
        assert_eq!(arrivals.at(&format!("{prefix}-1")), None, "it is locked");
        sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut producer).await.expect("gone");
        note(&mut committed, &prefix, 20);
    }
    let longest = arrivals.longest(&committed).await;
    let journal = load.stop().await;
    wait_until("the load is delivered", async || {
        db.int("SELECT count(*) FROM outbox_event WHERE status <> 1").await == 0
    })
    .await;
    drop(snapshot);
    outbox.shutdown().await;
    println!(
        "{} events of the load, {} below the floor, {longest:?} at most",
        journal.committed.len(),
        committed.len()
    );
    assert!(journal.committed.iter().all(|id| arrivals.at(id).is_some()));
    // Without sweeps, the events that claims passed would wait for at least 30 s, the length of their leases.
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    drop_schema(&db.schema).await;
}

/// Delivers this many thousand events, one thousand after the other. Returns the events per second.
async fn throughput(db: &Db, recorder: &Recorder, name: &str, thousands: usize) -> f64 {
    let mut connection = administrator().await;
    let (known, started) = (recorder.count(), Instant::now());
    for n in 0..thousands {
        insert_raw(&mut connection, db, &format!("{name}{n}"), 1000, "now()").await;
        within_timeout("most of them come", recorder.wait_for(known + n * 1000 + 500)).await;
    }
    within_timeout("all come", recorder.wait_for(known + thousands * 1000)).await;
    (thousands * 1000) as f64 / started.elapsed().as_secs_f64()
}

// T-XMIN, F32
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn forgotten_transaction_does_not_slow_the_engine_down() {
    let _alone = alone().await;
    let db = Db::with_pool(4).await;
    let recorder = Recorder::new();
    let outbox = start_engine(&db.store, &recorder, Duration::from_millis(100));
    throughput(&db, &recorder, "warm", 2).await;
    let before = throughput(&db, &recorder, "before", 10).await;
    let mut snapshot = hold_a_snapshot(&db).await;
    // Dead rows, as claims and vacuum see them.
    let mut connection = administrator().await;
    let mut dead = connection.begin().await.expect("a transaction");
    insert_raw(&mut dead, &db, "dead", 200_000, "now()").await;
    let delete = format!(r#"DELETE FROM "{}".outbox_event WHERE event_id LIKE 'dead-%'"#, db.schema);
    sqlx::raw_sql(AssertSqlSafe(delete)).execute(&mut *dead).await.expect("deleted");
    dead.commit().await.expect("committed");
    let with = throughput(&db, &recorder, "with", 10).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut snapshot).await.expect("it lived to the end");
    outbox.shutdown().await;
    println!("{before:.0} events/s without a snapshot, {with:.0} with one and 200,000 dead rows");
    // Measured: 0.5 to 1.2 of the rate before; without the claim floor, 0.24 after half as many dead rows.
    assert!(with >= 0.35 * before, "{with:.0} of {before:.0} events/s");
    drop_schema(&db.schema).await;
}

/// Takes a moment for each event.
struct SlowDestination(Recorder);

#[async_trait]
impl Destination for SlowDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        spend(Duration::from_secs(2)).await;
        self.0.deliver(batch).await
    }

    fn profile(&self) -> Profile {
        self.0.profile()
    }
}

// F29
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn no_transaction_of_the_store_is_open_while_a_handler_runs_and_every_connection_has_a_name() {
    let _alone = alone().await;
    let schema = new_schema();
    // Application names of its connections begin with the name of the service.
    let options = server().application_name(schema.as_str());
    let store =
        PgStore::builder(&options).schema(schema.clone()).migrate().connect().await.expect("it opens");
    let recorder =
        Recorder::with(|delivery| match (delivery.attempt, delivery.id().as_str().ends_with('7')) {
            (1, true) => Outcome::retry("not yet"),
            _ => Outcome::done(),
        });
    let routes = Routes::new().add(Route::fallback().deliver_to(SlowDestination(recorder.clone())));
    let purge = PurgeConfig::default().with_on_done(OnDone::Archive);
    let outbox =
        Outbox::builder(store.clone(), routes).lease(Duration::from_secs(6)).purge(purge).workers(20);
    let outbox = outbox.poll_interval(Duration::from_millis(50)).start().expect("a good configuration");
    let mut connection = administrator().await;
    let db = Db { store, pool: PgPool::connect_lazy_with(server()), place: Place { schema } };
    insert_raw(&mut connection, &db, "slow", 60, "now()").await;

    let look = "SELECT application_name, state = 'idle in transaction' AND
        clock_timestamp() - state_change > interval '1.5 s', left(query, 100)
      FROM pg_stat_activity WHERE application_name LIKE $1 || '%'";
    let (mut names, mut looks) = (BTreeSet::new(), 0);
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while recorder.count() < 66 {
        tick.tick().await;
        let backends = sqlx::query(look).bind(db.schema.as_str()).fetch_all(&mut connection).await;
        for backend in backends.expect("a reply of the server") {
            let (name, waits): (String, Option<bool>) = (backend.get(0), backend.get(1));
            assert_ne!(
                waits,
                Some(true),
                "{name} is idle in a transaction after {:?}",
                backend.get::<String, _>(2)
            );
            names.insert(name);
        }
        looks += 1;
    }
    println!("{looks} checks of {names:?}");
    assert!(looks > 20);
    assert!(names.iter().all(|name| name.contains(": posthaste")), "{names:?}");
    for part in ["engine", "listen"] {
        assert!(names.iter().any(|name| name.ends_with(part)), "{part} is missing in {names:?}");
    }
    outbox.shutdown().await;
    drop_schema(&db.schema).await;
}

/// The memory of this process in MiB; `None` if the system does not report it.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib / 1024)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn steady_load_is_delivered_once_in_constant_memory() {
    const EVENTS: usize = 40_000;
    const INSERT_ROWS: usize = 20;
    /// The number of events that may wait, so that the result does not depend on the speed of the machine.
    const MAX_WAITING_EVENTS: usize = 1000;
    let _alone = alone().await;
    let db = Db::with_pool(4).await;
    let (came, mut count) = watch::channel(0_usize);
    let routes = Routes::new().handle("Tested", move |_: Delivery| {
        came.send_modify(|count| *count += 1);
        async {}
    });
    let outbox = Outbox::builder(db.store.clone(), routes);
    let outbox = outbox.poll_interval(Duration::from_millis(100)).start().expect("a good configuration");
    let mut connection = administrator().await;
    let mut warm_memory = None;
    for written in (0..EVENTS).step_by(INSERT_ROWS) {
        let has_room = count.wait_for(|count| written < count + MAX_WAITING_EVENTS);
        drop(within_timeout("the backlog goes down", has_room).await.expect("it runs"));
        insert_raw(&mut connection, &db, &format!("s{written}"), INSERT_ROWS, "now()").await;
        if written >= EVENTS / 10 {
            warm_memory = warm_memory.or_else(memory);
        }
    }
    within_timeout("the last ones come", count.wait_for(|count| *count >= EVENTS)).await.expect("it runs");
    let (then, now) = (warm_memory.unwrap_or_default(), memory().unwrap_or_default());
    outbox.shutdown().await;
    assert_eq!(*count.borrow(), EVENTS, "each exactly once");
    assert!(now < then + 64, "{then} MiB became {now} MiB");
    drop_schema(&db.schema).await;
}
