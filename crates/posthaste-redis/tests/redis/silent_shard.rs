//! A cluster node that does not reply: the shards on the other nodes are still served.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use posthaste::store::{Lease, Leased, Park, Release, Renew, Settled, Store as _, Unpark};
use posthaste::{Admin as _, StoreError};
use posthaste_redis::RedisStore;
use posthaste_testkit::server::{RedisCluster, RedisServer};
use posthaste_testkit::{HOUR, wait_until, within_timeout};

use crate::shards::aggregates;
use crate::support::{claim_bytes, command, me, of_size, settle_done, writer_of};

const SHARDS: u16 = 8;

/// An outbox with an event in each shard, and a node that has some of the shards but not the first one, which stores
/// the paused routes.
struct Fixture {
    cluster: RedisCluster,
    store: RedisStore,
    aggregates: Vec<String>,
    silent_node: usize,
}

impl Fixture {
    async fn new() -> Self {
        let cluster = RedisCluster::start().await;
        let urls = cluster.urls();
        let builder = RedisStore::cluster(urls.iter().map(String::as_str)).expect("good URLs");
        let store = builder.shards(SHARDS).connect().await.expect("it opens");
        let first = cluster.node_of("{outbox:0}").await;
        let aggregates = aggregates(&store, SHARDS.into());
        let mut nodes = Vec::new();
        for aggregate in &aggregates {
            nodes.push(cluster.node_of(store.tag(aggregate)).await);
        }
        let silent_node =
            nodes.into_iter().find(|node| *node != first).expect("the shards are on several nodes");
        let events = aggregates.iter().map(|aggregate| of_size(aggregate, 10)).collect();
        writer_of(&store).write_all(events).await.expect("they are stored");
        Self { cluster, store, aggregates, silent_node }
    }

    fn silent_node(&self) -> &RedisServer {
        &self.cluster.nodes[self.silent_node]
    }

    /// The aggregates whose shards are on the other nodes.
    async fn on_other_nodes(&self) -> BTreeSet<String> {
        let mut others = BTreeSet::new();
        for aggregate in &self.aggregates {
            if self.cluster.node_of(self.store.tag(aggregate)).await != self.silent_node {
                others.insert(aggregate.clone());
            }
        }
        others
    }

    /// Claims everything.
    async fn all(&self) -> Vec<Leased> {
        let claimed = claim_bytes(&self.store, usize::MAX).await.events;
        assert_eq!(claimed.len(), usize::from(SHARDS));
        claimed
    }
}

/// The result of a call while one node is silent.
async fn beside_silence<T>(what: &str, call: impl Future<Output = Result<T, StoreError>>) -> T {
    within_timeout(what, call).await.expect("the other nodes reply")
}

fn aggregates_of(leased: &[Leased]) -> BTreeSet<String> {
    leased.iter().filter_map(|leased| leased.event.aggregate_id().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn shards_of_a_suspended_node_are_skipped_by_claims_until_it_resumes() {
    // Without the back-off each of these claims would wait for seconds.
    const CLAIMS: usize = 40;
    const CLAIMS_TIMEOUT: Duration = Duration::from_secs(60);
    let fixture = Fixture::new().await;
    let others = fixture.on_other_nodes().await;
    let before = claim_bytes(&fixture.store, 0).await;
    assert!(before.paused.is_empty() && before.events.len() == 1);
    fixture.silent_node().suspend();
    assert!(fixture.store.pause("mail", "ann").await.expect("it is paused"));

    let (mut found, since) = (before.events, Instant::now());
    for _ in 0..CLAIMS {
        let claimed = claim_bytes(&fixture.store, usize::MAX).await;
        assert!(claimed.paused.iter().eq(["mail"]), "the pause is seen: {:?}", claimed.paused);
        found.extend(claimed.events);
    }
    let took = since.elapsed();
    println!("{CLAIMS} claims beside a suspended node: {took:?}");
    assert!(took < CLAIMS_TIMEOUT, "{took:?}");
    assert_eq!(aggregates_of(&found), others);

    fixture.silent_node().resume();
    let found = AtomicUsize::new(found.len());
    wait_until("the other events are claimed after the node resumes", async || {
        let more = claim_bytes(&fixture.store, usize::MAX).await.events.len();
        found.fetch_add(more, Ordering::SeqCst) + more == usize::from(SHARDS)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn leases_on_other_nodes_are_renewed_parked_and_unparked_while_one_node_is_suspended() {
    let fixture = Fixture::new().await;
    let (owner, others) = (me(), fixture.on_other_nodes().await);
    let leases: Vec<Lease> = fixture.all().await.into_iter().map(|leased| leased.lease).collect();
    fixture.silent_node().suspend();
    let renew = Renew::new(&owner, &leases, HOUR);
    let held = beside_silence("they are renewed", fixture.store.renew(&renew)).await;
    assert_eq!(held.len(), others.len(), "only those of the other nodes");
    let park = Park::new(&owner, &leases, "mail", HOUR);
    let parked = beside_silence("they are parked", fixture.store.park(&park)).await;
    assert_eq!(parked, others.len() as u64);
    let unpark = Unpark::new("mail", 100);
    let unparked = beside_silence("they are unparked", fixture.store.unpark(&unpark)).await;
    assert_eq!(unparked, others.len() as u64);
    let again = claim_bytes(&fixture.store, usize::MAX).await.events;
    assert_eq!(aggregates_of(&again), others);
    let leases: Vec<Lease> = again.into_iter().map(|leased| leased.lease).chain(leases).collect();
    let release = Release::new(&owner, &leases);
    let released = beside_silence("they are released", fixture.store.release(&release)).await;
    assert_eq!(released, others.len() as u64);
}

/// Without the outcomes of the other shards an engine would stop delivering.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn outcomes_on_other_nodes_are_written_while_one_node_is_suspended_and_its_own_after_it_resumes() {
    let fixture = Fixture::new().await;
    let others = fixture.on_other_nodes().await;
    let claimed = fixture.all().await;
    let settle = || settle_done(&fixture.store, claimed.iter().map(|leased| &leased.lease));
    let is_other = |leased: &Leased| others.contains(leased.event.aggregate_id().expect("an aggregate"));
    fixture.silent_node().suspend();
    for known in [Settled::Done, Settled::Stale] {
        let settled = beside_silence("outcomes are written", settle()).await;
        let expected = |leased| if is_other(leased) { known.clone() } else { Settled::Unknown };
        assert_eq!(settled, claimed.iter().map(expected).collect::<Vec<_>>());
    }
    fixture.silent_node().resume();
    wait_until("its own outcomes are written", async || {
        settle().await.expect("all nodes reply").contains(&Settled::Done)
    })
    .await;
}

/// The failing shard replies fast, while the others need the script's source first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn settlement_that_fails_in_one_shard_is_written_in_the_others() {
    let fixture = Fixture::new().await;
    let mut claimed = fixture.all().await;
    let settle = async |leased: &[Leased]| {
        settle_done(&fixture.store, leased.iter().map(|leased| &leased.lease)).await
    };
    let tag_of =
        |leased: &Leased| fixture.store.tag(leased.event.aggregate_id().expect("an aggregate")).to_owned();
    let mut broken = None;
    for (index, leased) in claimed.iter().enumerate() {
        if fixture.cluster.node_of(&tag_of(leased)).await == fixture.silent_node {
            broken = Some(index);
        }
    }
    let broken = broken.expect("the node has a shard");
    let leased = claimed.remove(broken);
    claimed.insert(0, leased);
    let tag = tag_of(&claimed[0]);
    let audit = format!("{tag}:audit");
    let _: () = command(fixture.silent_node(), "SET", (&audit, "not ours")).await;
    settle(&claimed[..1]).await.expect_err("a key holds something else");
    for (index, node) in fixture.cluster.nodes.iter().enumerate() {
        if index != fixture.silent_node {
            let _: () = command(node, "SCRIPT", "FLUSH").await;
        }
    }
    settle(&claimed).await.expect_err("a key holds something else");
    let _: u8 = command(fixture.silent_node(), "DEL", &audit).await;
    let mut expected = vec![Settled::Stale; claimed.len()];
    expected[0] = Settled::Done;
    assert_eq!(settle(&claimed).await.expect("the settlement works"), expected, "all but one were settled");
}
