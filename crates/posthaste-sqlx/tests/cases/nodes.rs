//! Several node processes on one table: killed, suspended, of different releases, and with wrong clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use sqlx::Row as _;

use crate::nodes::*;
use crate::support::*;

/// The tests of this file, and the node that they start.
macro_rules! node_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::nodes, (flavor = "multi_thread", worker_threads = 2):
            four_nodes_deliver_each_event_exactly_once,
            node_killed_twenty_times_loses_and_invents_nothing_and_repeats_only_deliveries_in_progress,
            event_that_aborts_its_process_dies_and_others_that_it_held_do_not,
            node_stopped_past_its_lease_changes_nothing_that_another_holds,
            node_stopped_under_load_is_replaced_and_only_what_it_had_begun_is_repeated,
            old_node_leaves_an_unknown_type_to_the_new_node,
            nodes_an_hour_ahead_and_an_hour_behind_deliver_once_and_not_before_its_time,
        );

        #[test]
        #[ignore = "a node, which the other tests of this file start"]
        fn node() {
            nodes::run_node();
        }
    };
}
pub(crate) use node_tests;

const SHORT_LEASE_DURATION: Duration = Duration::from_secs(2);

/// Those of these events that are neither DONE nor DEAD.
async fn unsettled(db: &Db, ids: &[String]) -> Vec<String> {
    let waiting = ids_where(db, "status IN (0, 2)").await;
    ids.iter().filter(|id| waiting.contains(*id)).cloned().collect()
}

async fn ids_where(db: &Db, condition: &str) -> BTreeSet<String> {
    let sql = sqlx::AssertSqlSafe(format!("SELECT event_id FROM outbox_event WHERE {condition}"));
    let rows = sqlx::query(sql).fetch_all(&db.pool).await.expect("rows");
    rows.iter().map(|row| row.get(0)).collect()
}

/// The events that were delivered and not settled when a node was killed or suspended, and how often that happened.
#[derive(Default)]
struct InFlight(BTreeMap<String, usize>);

impl InFlight {
    fn add(&mut self, ids: Vec<String>) {
        ids.into_iter().for_each(|id| *self.0.entry(id).or_default() += 1);
    }

    fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Asserts that each event is repeated at most as often as it was in flight. Returns the number of repeated
    /// deliveries.
    fn check(&self, counts: &BTreeMap<&str, usize>) -> usize {
        let allowed = |id: &str| 1 + self.0.get(id).copied().unwrap_or(0);
        let wrong: Vec<_> = counts.iter().filter(|(id, count)| **count > allowed(id)).take(5).collect();
        assert!(wrong.is_empty(), "delivered again without need: {wrong:?}");
        counts.values().map(|count| count - 1).sum()
    }
}

// T-BASE, F22
pub(crate) async fn four_nodes_deliver_each_event_exactly_once() {
    let _alone = alone().await;
    let db = Db::new().await;
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(Node::start(&Config::new(&db)).await);
    }
    // Half of the events take the hot path on the nodes; the other half is for any node.
    for (n, node) in nodes.iter_mut().enumerate() {
        node.send(&format!("WRITE 2800 node{n}"));
    }
    let writer = db.plain_writer();
    let cold = async |name| write_as_service(&writer, &db.pool, name, 2800, Duration::ZERO, |_, _| ()).await;
    let (a, b, c, d) = tokio::join!(cold("a"), cold("b"), cold("c"), cold("d"));
    let mut journal = Journal::default();
    [a, b, c, d].into_iter().for_each(|written| journal.absorb(written));
    for node in &mut nodes {
        node.wait_for_report("WROTE", 1).await;
    }
    db.until_nothing_waits().await;
    let mut delivered = Vec::new();
    for node in nodes {
        let output = node.stop().await;
        journal.absorb(Journal::of(&output));
        println!(
            "{} delivered, {} of them hot",
            output.delivered().len(),
            output.counter("outbox.enqueue.hot")
        );
        assert!(output.delivered().len() > 500, "every node took part");
        assert!(output.counter("outbox.enqueue.hot") > 0 && output.counter("outbox.enqueue.cold") > 0);
        delivered.extend_from_slice(output.delivered());
    }
    let counts = counts(&delivered);
    journal.check(counts.keys().copied());
    assert_eq!(journal.unknown, BTreeSet::new());
    assert!(journal.committed.len() >= 20_000, "{} committed", journal.committed.len());
    assert_eq!(delivered.len(), journal.committed.len(), "each exactly once");
    assert_eq!(db.int("SELECT count(*) FROM outbox_event WHERE lost_leases > 0").await, 0);
    db.close().await;
}

// T-KILL, F21, F24
pub(crate) async fn node_killed_twenty_times_loses_and_invents_nothing_and_repeats_only_deliveries_in_progress()
 {
    let _alone = alone().await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let db = Db::new().await;
    let config = Config {
        lease: SHORT_LEASE_DURATION,
        handling: Handling::Takes(Duration::from_millis(2)),
        ..Config::new(&db)
    };
    let mut steady = Vec::new();
    for _ in 0..3 {
        steady.push(Node::start(&config).await);
    }
    let load = Load::start("load", &db.plain_writer(), &db.pool, 3, Duration::from_millis(5));
    let (mut in_flight, mut delivered) = (InFlight::default(), Vec::new());
    let mut journal = Journal::default();
    for life in 0..20 {
        let mut victim = Node::start(&config).await;
        victim.send(&format!("WRITE 1000000 life{life}"));
        victim.wait_for_report("DELIVERED", random.usize(1..300)).await;
        let output = victim.kill().await;
        in_flight.add(unsettled(&db, output.delivered()).await);
        journal.absorb(Journal::of(&output));
        delivered.extend_from_slice(output.delivered());
    }
    let by_victims = delivered.len();
    journal.absorb(load.stop().await);
    db.until_nothing_waits().await;
    for node in steady {
        delivered.extend_from_slice(node.stop().await.delivered());
    }
    let counts = counts(&delivered);
    journal.check(counts.keys().copied());
    let repeats = in_flight.check(&counts);
    let unknown = &ids_where(&db, "status = 1").await & &journal.unknown;
    println!(
        "{} committed, {} rolled back, {} unknown of which {} were there, {by_victims} delivered by the \
         killed, {} in flight at the kills, {repeats} repeats",
        journal.committed.len(),
        journal.rolled_back.len(),
        journal.unknown.len(),
        unknown.len(),
        in_flight.total(),
    );
    let delivered_unknown = journal.unknown.iter().filter(|id| counts.contains_key(id.as_str()));
    assert_eq!(delivered_unknown.cloned().collect::<BTreeSet<_>>(), unknown, "what is there is delivered");
    assert!(repeats > 0, "some of the kills hit a delivery");
    assert_eq!(db.int("SELECT count(*) FROM outbox_event WHERE status <> 1").await, 0);
    db.close().await;
}

/// The state of the rows, except the ends of their leases, which their owner extends.
async fn rows(db: &Db) -> Vec<String> {
    let sql = "SELECT concat_ws(' ', event_id, status, attempts, coalesce(locked_by, '-'), lease_token, lost_leases,
      deferrals, coalesce(last_error, '-'), done_at) FROM outbox_event ORDER BY seq";
    let rows = sqlx::query(sql).fetch_all(&db.pool).await.expect("rows");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn write(db: &Db, event_type: &str, ids: impl IntoIterator<Item = String>) {
    let events = ids.into_iter().map(|id| typed_event(event_type, &id)).collect();
    crate::support::write(&db.plain_writer(), &db.pool, events).await;
}

/// An abort in a C library, or the out-of-memory killer: the process ends as soon as the delivery begins, again and
/// again, with all events that it held.
pub(crate) async fn event_that_aborts_its_process_dies_and_others_that_it_held_do_not() {
    let _alone = alone().await;
    let db = Db::new().await;
    let lease = Duration::from_millis(300);
    let handling = Handling::Takes(Duration::from_millis(5));
    let config = Config { lease, poll: Duration::from_millis(50), handling, ..Config::new(&db) };
    write(&db, "Made", (0..100).map(|n| format!("before{n}"))).await;
    write(&db, "Aborting", ["poison".to_owned()]).await;
    write(&db, "Made", (0..100).map(|n| format!("behind{n}"))).await;
    let waiting = async || db.int("SELECT count(*) FROM outbox_event WHERE status IN (0, 2)").await;
    let mut deaths = 0;
    while waiting().await > 0 {
        let mut node = Node::start(&config).await;
        wait_until("it ends, or nothing waits", async || node.has_ended() || waiting().await == 0).await;
        deaths += usize::from(node.has_ended());
    }
    println!("{deaths} processes died");
    assert_eq!(ids_where(&db, "status = 3").await, BTreeSet::from(["poison".to_owned()]));
    assert_eq!(ids_where(&db, "status = 1").await.len(), 200);
    assert_eq!(deaths, 20, "processes died before the event did");
    db.close().await;
}

// T-STOP, F20
pub(crate) async fn node_stopped_past_its_lease_changes_nothing_that_another_holds() {
    let _alone = alone().await;
    let db = Db::new().await;
    let config =
        Config { lease: SHORT_LEASE_DURATION, workers: 20, handling: Handling::Holds, ..Config::new(&db) };
    let mut stopped = Node::start(&config).await;
    write(&db, "Failing", (0..10).map(|n| format!("failing{n}"))).await;
    stopped.wait_for_report("DELIVERED", 10).await;
    stopped.suspend();
    // When this node resumes, it fails all its events together, before it can notice that their leases are lost.
    stopped.send("GO");
    let mut next = Node::start(&config).await;
    next.wait_for_report("DELIVERED", 10).await;
    let before = rows(&db).await;
    assert_eq!(db.int("SELECT count(*) FROM outbox_event WHERE status = 0 AND attempts = 0").await, 10);
    assert_eq!(db.int("SELECT min(lost_leases) FROM outbox_event").await, 1);

    stopped.resume();
    let output = stopped.stop().await;
    assert_eq!(rows(&db).await, before, "the late outcomes change nothing");
    let conflicts = output.counter("outbox.lease.conflicts");
    println!("{conflicts} conflicts");
    assert!(conflicts >= 10, "each of them is counted, {conflicts} were");
    assert_eq!(output.counter("outbox.dispatch.failure"), 0);

    next.send("GO");
    wait_until("the other one settles them", async || {
        db.int("SELECT count(*) FROM outbox_event WHERE status = 2 AND attempts = 1").await == 10
    })
    .await;
    next.kill().await;
    db.close().await;
}

// T-STOP under load
pub(crate) async fn node_stopped_under_load_is_replaced_and_only_what_it_had_begun_is_repeated() {
    let _alone = alone().await;
    let db = Db::new().await;
    let config = Config {
        lease: SHORT_LEASE_DURATION,
        workers: 8,
        handling: Handling::Takes(Duration::from_millis(10)),
        ..Config::new(&db)
    };
    let steady = Node::start(&config).await;
    let mut stopped = Node::start(&config).await;
    let load = Load::start("load", &db.plain_writer(), &db.pool, 3, Duration::from_millis(2));
    stopped.wait_for_report("DELIVERED", 200).await;
    stopped.suspend();
    wait_until("its leases lapse, and the other one delivers", async || {
        db.int("SELECT count(*) FROM outbox_event WHERE status = 1 AND lost_leases > 0").await > 0
    })
    .await;
    let journal = load.stop().await;
    db.until_nothing_waits().await;
    let settled_without_it = db.int("SELECT count(*) FROM outbox_event WHERE lost_leases > 0").await;
    let before = rows(&db).await;
    stopped.resume();
    let output = stopped.stop().await;
    assert_eq!(rows(&db).await, before, "the late outcomes change nothing");
    let late = output.counter("outbox.settle.late.done");
    let mut delivered = output.delivered().to_vec();
    delivered.extend_from_slice(steady.stop().await.delivered());
    let counts = counts(&delivered);
    journal.check(counts.keys().copied());
    let repeats = delivered.len() - counts.len();
    println!(
        "{} committed, {settled_without_it} taken over, {repeats} repeats, {late} late outcomes",
        journal.committed.len()
    );
    assert!(repeats <= settled_without_it as usize);
    // There are more late outcomes if the node was suspended during one of its statements, which is sent again.
    assert!(late as usize >= repeats, "every repeat is counted: {late} of {repeats}");
    db.close().await;
}

pub(crate) async fn old_node_leaves_an_unknown_type_to_the_new_node() {
    let _alone = alone().await;
    let db = Db::new().await;
    let config = |types: &[&str]| Config {
        types: types.iter().map(ToString::to_string).collect(),
        ..Config::new(&db)
    };
    let mut old = Node::start(&config(&["Old"])).await;
    write(&db, "New", (0..200).map(|n| format!("new{n}"))).await;
    write(&db, "Old", (0..200).map(|n| format!("old{n}"))).await;
    old.wait_for_report("DELIVERED", 200).await;
    wait_until("the old node parks what it does not know", async || {
        db.int("SELECT count(*) FROM outbox_event WHERE parked IS NOT NULL").await == 200
    })
    .await;
    let new = Node::start(&config(&["Old", "New"])).await;
    // More of both types while both nodes run.
    write(&db, "New", (200..400).map(|n| format!("new{n}"))).await;
    write(&db, "Old", (200..400).map(|n| format!("old{n}"))).await;
    db.until_nothing_waits().await;
    let (old, new) = (old.stop().await, new.stop().await);
    println!("{} by the old node, {} by the new one", old.delivered().len(), new.delivered().len());
    assert!(old.delivered().iter().all(|id| id.starts_with("old")));
    let delivered: Vec<String> = [old.delivered(), new.delivered()].concat();
    assert_eq!((delivered.len(), counts(&delivered).len()), (800, 800), "each exactly once");
    assert_eq!(db.int("SELECT count(*) FROM outbox_event WHERE status <> 1 OR attempts <> 0").await, 0);
    db.close().await;
}

/// This program with a clock that is wrong by this offset.
fn with_clock(offset: &str) -> Command {
    let mut command = Command::new("faketime");
    command.args(["--exclude-monotonic", "-f", offset]).arg(std::env::current_exe().expect("this program"));
    command
}

// T-CLOCK, F23
pub(crate) async fn nodes_an_hour_ahead_and_an_hour_behind_deliver_once_and_not_before_its_time() {
    let _alone = alone().await;
    let delay = Duration::from_secs(2);
    let db = Db::new().await;
    let config = Config { lease: Duration::from_secs(5), delay, ..Config::new(&db) };
    let mut nodes = [
        Node::start_with(with_clock("+3600s"), &config).await,
        Node::start_with(with_clock("-3600s"), &config).await,
    ];
    // The nodes write the delayed events, by their own clocks. The others are written here.
    for (n, node) in nodes.iter_mut().enumerate() {
        node.send(&format!("WRITE 2800 node{n}"));
    }
    let writer = db.plain_writer();
    let cold = async |name| write_as_service(&writer, &db.pool, name, 2800, Duration::ZERO, |_, _| ()).await;
    let (mut journal, more) = tokio::join!(cold("a"), cold("b"));
    journal.absorb(more);
    for node in &mut nodes {
        node.wait_for_report("WROTE", 1).await;
    }
    db.until_nothing_waits().await;
    let skew =
        "SELECT count(*) FROM (SELECT min(created_at) AS oldest, max(created_at) AS newest FROM outbox_event)
      AS o WHERE oldest <= newest - INTERVAL '119' MINUTE";
    assert_eq!(db.int(skew).await, 1, "the clocks of the nodes are two hours apart");
    let mut delivered = Vec::new();
    for node in nodes {
        let output = node.stop().await;
        journal.absorb(Journal::of(&output));
        assert!(output.delivered().len() > 500, "both took part");
        delivered.extend_from_slice(output.delivered());
    }
    let counts = counts(&delivered);
    journal.check(counts.keys().copied());
    assert!(journal.committed.len() >= 10_000, "{} committed", journal.committed.len());
    assert_eq!(delivered.len(), journal.committed.len(), "each exactly once");
    // The delay counts from the creation of the event. A busy machine may insert it later.
    let early = "SELECT count(*) FROM outbox_event
      WHERE event_id LIKE 'node%' AND done_at < inserted_at + INTERVAL '1' SECOND";
    assert_eq!(db.int(early).await, 0, "nothing is early");
    let late = "SELECT count(*) FROM outbox_event WHERE done_at > available_at + INTERVAL '60' SECOND";
    assert_eq!(db.int(late).await, 0, "nothing is stuck");
    db.close().await;
}
