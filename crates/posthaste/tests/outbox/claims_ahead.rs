//! Claims that are under way while the events of the one before are delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::{Delivery, Destination, MemoryStore, Outcome, Profile, Recorder};
use tokio::time::sleep;

use crate::support::*;

const MIB: usize = 1024 * 1024;

fn leased(store: &MemoryStore) -> usize {
    store.rows().iter().filter(|row| row.locked_by.is_some()).count()
}

/// Counts how many rows the engine holds, in its queue and in claims under way.
#[derive(Clone)]
struct Watching {
    store: MemoryStore,
    most_leased: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
}

#[async_trait]
impl Destination for Watching {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        sleep(millis(1)).await;
        self.most_leased.fetch_max(leased(&self.store), Ordering::SeqCst);
        self.taken.fetch_add(batch.len(), Ordering::SeqCst);
        batch.iter().map(|_| Outcome::done()).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(4)
    }
}

#[tokio::test(start_paused = true)]
async fn claims_under_way_and_the_queue_share_one_bound_in_bytes() {
    const ROWS: usize = 600;
    let store = MemoryStore::new();
    let payload = Bytes::from(vec![b' '; MIB]);
    for _ in 0..ROWS {
        store.insert_raw(RawRow::of_type("Made").with_payload(payload.clone())).expect("new");
    }
    let (most_leased, taken) = (Arc::default(), Arc::default());
    let watching = Watching { store: store.clone(), most_leased, taken };
    let slow = FaultyStore::on(&store);
    slow.break_call(Call::Claim, Fault::AnswerLate(millis(5)));
    let queue = QueueConfig::default().with_bytes(16 * MIB);
    let outbox =
        single_node(&slow, routes_to(&watching)).queue(queue).poll_batch(100).start().expect("start");
    eventually(secs(60), || watching.taken.load(Ordering::SeqCst) == ROWS).await;
    // A few rows more than fit: a claim returns its first row whatever its size, and settlements wait for the settler.
    let most = watching.most_leased.load(Ordering::SeqCst);
    assert!(most <= 16 + 4, "{most} rows of a mebibyte");
    outbox.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_during_a_claim_leaves_nothing_leased() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    insert_foreign(&store.inner, "Made", 1_000);
    let slow = Slow::new(millis(10), recorder.clone());
    store.break_call(Call::Claim, Fault::AnswerLate(millis(500)));
    let outbox = single_node(&store, routes_to(&slow)).poll_batch(50).start().expect("start");
    // The first claim has returned, and the second one is under way.
    recorder.wait_for(1).await;
    assert!(leased(&store.inner) > 50, "two claims: {}", leased(&store.inner));
    let report = outbox.shutdown().await;
    assert_eq!((leased(&store.inner), report.abandoned), (0, 0));
    assert!(recorder.count() < 1_000, "it did not deliver everything first");
}
