//! What is counted beyond what every outbox counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use posthaste::store::{Backoff, Claim, Owner, Settle, Settlement, Store as _, Verdict};
use posthaste::{Event, Outbox, Routes};
use redis::AsyncCommands as _;

use crate::support::{self, event, key};

/// Keeps counters by their name, and those of decisions also by what was decided.
#[derive(Default)]
pub(crate) struct Counters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counters {
    pub(crate) fn counted(&self) -> Vec<(String, u64)> {
        let counters = self.0.lock().expect("no panic");
        counters.iter().map(|(name, count)| (name.clone(), count.load(Ordering::SeqCst))).collect()
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let Some(name) = key.name().strip_prefix("outbox.redis.") else { return Counter::noop() };
        let decision = key.labels().find(|label| label.key() == "decision").map(metrics::Label::value);
        let name = decision.map_or_else(|| name.to_owned(), |decision| format!("{name} {decision}"));
        Counter::from_arc(Arc::clone(self.0.lock().expect("no panic").entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

// S1-17, S1-24, S1-31
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn writes_deaths_and_repairs_are_counted() {
    let counters = Counters::default();
    let _guard = metrics::set_default_local_recorder(&counters);
    let (store, name) = support::store().await;
    let mut connection = support::connect(&support::server_url()).await;
    let outbox =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    let writer = store.writer(&outbox);
    let once = || Event::builder("Once").id("once").json_text("1").build().expect("a good event");
    writer.write(once()).await.expect("it is stored");
    writer.write(once()).await.expect("no error");
    let mut tx = writer.begin();
    tx.write_all(vec![event("A", "1"), event("B", "1"), once()]).expect("good events");
    tx.commit(&mut connection).await.expect("it commits");
    let _: () = connection.zadd(key(&name, "pending"), "nobody", 0).await.expect("ZADD");
    let _: () = connection.hset(key(&name, "entries"), "lost", "{}").await.expect("HSET");

    let owner = Owner::from("me");
    let claim = Claim::new(&owner, Duration::from_secs(30), 10);
    let claimed = store.claim(&claim).await.expect("the claim works").events;
    let backoff = Backoff::new(1, []);
    let verdicts = [
        Verdict::Done,
        Verdict::Dead { reason: "no".to_owned() },
        Verdict::Failed { error: "no".to_owned(), backoff },
    ];
    let settlement = |(leased, verdict): (&posthaste::store::Leased, Verdict)| {
        Settlement::new(leased.lease.clone(), verdict)
    };
    let settlements: Vec<Settlement> = claimed.iter().zip(verdicts).map(settlement).collect();
    let settle = Settle::new(&owner, &settlements);
    store.settle(&settle).await.expect("the settlement works");
    store.repair_worker().run_once().await.expect("the repair works");

    let expected = [
        ("duplicates", 2),
        ("enqueued", 3),
        ("orphans.met", 1),
        ("parked_failed", 2),
        ("repaired.bodies", 1),
        ("repaired.members", 1),
    ];
    assert_eq!(counters.counted(), expected.map(|(name, count)| (name.to_owned(), count)));
    support::remove(&mut connection, &name, 1).await;
}
