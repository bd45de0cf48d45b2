//! A node of a cluster that does not answer: the shards on the other nodes go on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use posthaste::Admin as _;
use posthaste::store::{
    Lease, Leased, Owner, Park, Release, Renew, Settle, Settled, Settlement, Store as _, Unpark, Verdict,
};
use posthaste_redis::RedisStore;
use posthaste_testkit::server::{RedisCluster, RedisServer};
use posthaste_testkit::{HOUR, wait_until, within_timeout};

use crate::shards::{aggregates, claim, of_size, write};
use crate::support::connect;

const SHARDS: u16 = 8;

/// An outbox with an event in each shard, and a node that has some of the shards, but not the first: there it is
/// said which routes are paused.
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
        write(&store, aggregates.iter().map(|aggregate| of_size(aggregate, 10)).collect()).await;
        Self { cluster, store, aggregates, silent_node }
    }

    fn silent_node(&self) -> &RedisServer {
        &self.cluster.nodes[self.silent_node]
    }

    /// The aggregates whose shards are on the other nodes.
    async fn on_the_others(&self) -> BTreeSet<String> {
        let mut others = BTreeSet::new();
        for aggregate in &self.aggregates {
            if self.cluster.node_of(self.store.tag(aggregate)).await != self.silent_node {
                others.insert(aggregate.clone());
            }
        }
        others
    }

    /// Claims everything.
    async fn all(&self, owner: &Owner) -> Vec<Leased> {
        let claimed = claim(&self.store, owner, usize::MAX).await.events;
        assert_eq!(claimed.len(), usize::from(SHARDS));
        claimed
    }
}

fn aggregates_of(leased: &[Leased]) -> BTreeSet<String> {
    leased.iter().filter_map(|leased| leased.event.aggregate_id().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn shards_of_a_node_that_stands_still_are_left_out_of_claims_and_come_back() {
    // Each of these claims would wait for seconds.
    const CLAIMS: usize = 40;
    const CLAIMS_TIMEOUT: Duration = Duration::from_secs(60);
    let fixture = Fixture::new().await;
    let (owner, others) = (Owner::from("me"), fixture.on_the_others().await);
    let before = claim(&fixture.store, &owner, 0).await;
    assert!(before.paused.is_empty() && before.events.len() == 1);
    fixture.silent_node().suspend();
    assert!(fixture.store.pause("mail", "ann").await.expect("it is paused"));

    let (mut found, since) = (before.events, Instant::now());
    for _ in 0..CLAIMS {
        let claimed = claim(&fixture.store, &owner, usize::MAX).await;
        assert!(claimed.paused.iter().eq(["mail"]), "the pause is seen: {:?}", claimed.paused);
        found.extend(claimed.events);
    }
    let took = since.elapsed();
    println!("{CLAIMS} claims beside a node that stands still: {took:?}");
    assert!(took < CLAIMS_TIMEOUT, "{took:?}");
    assert_eq!(aggregates_of(&found), others);

    fixture.silent_node().resume();
    let found = AtomicUsize::new(found.len());
    wait_until("the others are claimed when the node goes on", async || {
        let more = claim(&fixture.store, &owner, usize::MAX).await.events.len();
        found.fetch_add(more, Ordering::SeqCst) + more == usize::from(SHARDS)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn leases_on_other_nodes_are_renewed_parked_and_brought_back_while_one_stands_still() {
    let fixture = Fixture::new().await;
    let (owner, others) = (Owner::from("me"), fixture.on_the_others().await);
    let leases: Vec<Lease> = fixture.all(&owner).await.into_iter().map(|leased| leased.lease).collect();
    fixture.silent_node().suspend();
    let renew = Renew::new(&owner, &leases, HOUR);
    let held =
        within_timeout("they are renewed", fixture.store.renew(&renew)).await.expect("the others answer");
    assert_eq!(held.len(), others.len(), "those of the other nodes, and no more");
    let park = Park::new(&owner, &leases, "mail", HOUR);
    let parked =
        within_timeout("they are parked", fixture.store.park(&park)).await.expect("the others answer");
    assert_eq!(parked, others.len() as u64);
    let unpark = Unpark::new("mail", 100);
    let unparked =
        within_timeout("they come back", fixture.store.unpark(&unpark)).await.expect("the others answer");
    assert_eq!(unparked, others.len() as u64);
    let again = claim(&fixture.store, &owner, usize::MAX).await.events;
    assert_eq!(aggregates_of(&again), others);
    let leases: Vec<Lease> = again.into_iter().map(|leased| leased.lease).chain(leases).collect();
    let release = Release::new(&owner, &leases);
    let released = within_timeout("they are released", fixture.store.release(&release))
        .await
        .expect("the others answer");
    assert_eq!(released, others.len() as u64);
}

/// An engine that is told nothing of its other outcomes stops delivering.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn outcomes_on_other_nodes_are_written_while_one_stands_still_and_its_own_when_it_goes_on() {
    let fixture = Fixture::new().await;
    let (owner, others) = (Owner::from("me"), fixture.on_the_others().await);
    let claimed = fixture.all(&owner).await;
    let settlement = |leased: &Leased| Settlement::new(leased.lease.clone(), Verdict::Done);
    let settlements: Vec<Settlement> = claimed.iter().map(settlement).collect();
    let settle = Settle::new(&owner, &settlements);
    let is_other = |leased: &Leased| others.contains(leased.event.aggregate_id().expect("an aggregate"));
    fixture.silent_node().suspend();
    for known in [Settled::Done, Settled::Stale] {
        let settled = within_timeout("outcomes are written", fixture.store.settle(&settle))
            .await
            .expect("the others answer");
        let expected = |leased| if is_other(leased) { known.clone() } else { Settled::Unknown };
        assert_eq!(settled, claimed.iter().map(expected).collect::<Vec<_>>());
    }
    fixture.silent_node().resume();
    wait_until("its own outcomes are written", async || {
        let settled = fixture.store.settle(&settle).await.expect("the others answer");
        settled.contains(&Settled::Done)
    })
    .await;
}

/// The shard that fails is fast, and the others have to be taught the script first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn settlement_that_fails_in_one_shard_is_carried_out_in_the_others() {
    let fixture = Fixture::new().await;
    let owner = Owner::from("me");
    let mut claimed = fixture.all(&owner).await;
    let settlement = |leased: &Leased| Settlement::new(leased.lease.clone(), Verdict::Done);
    let settle = async |leased: &[Leased]| {
        let settlements: Vec<Settlement> = leased.iter().map(settlement).collect();
        let settle = Settle::new(&owner, &settlements);
        fixture.store.settle(&settle).await
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
    let mut there = connect(&fixture.silent_node().url()).await;
    let _: () = redis::cmd("SET")
        .arg(format!("{tag}:audit"))
        .arg("not ours")
        .query_async(&mut there)
        .await
        .expect("SET");
    settle(&claimed[..1]).await.expect_err("a key holds something else");
    for (index, node) in fixture.cluster.nodes.iter().enumerate() {
        if index != fixture.silent_node {
            let mut flush = redis::cmd("SCRIPT");
            let _: () =
                flush.arg("FLUSH").query_async(&mut connect(&node.url()).await).await.expect("SCRIPT FLUSH");
        }
    }
    settle(&claimed).await.expect_err("a key holds something else");
    let _: () = redis::cmd("DEL").arg(format!("{tag}:audit")).query_async(&mut there).await.expect("DEL");
    let mut expected = vec![Settled::Stale; claimed.len()];
    expected[0] = Settled::Done;
    assert_eq!(settle(&claimed).await.expect("the settlement works"), expected, "all but one were settled");
}
