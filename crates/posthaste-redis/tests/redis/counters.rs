//! The counters of this store beyond those of every outbox.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use posthaste::Event;
use posthaste::store::{Backoff, Verdict};

use crate::support::{claim, event, on_one_server, settle_each};

/// Recorder that keeps counters by name. Those of decisions have the decision behind the name.
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
async fn writes_dead_events_and_repairs_are_counted() {
    let counters = Counters::default();
    let _guard = metrics::set_default_local_recorder(&counters);
    let outbox = on_one_server(1).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    let once = || Event::builder("Once").id("once").json_text("1").build().expect("a good event");
    writer.write(once()).await.expect("it is stored");
    writer.write(once()).await.expect("no error");
    let mut tx = writer.begin();
    tx.write_all(vec![event("A", "1"), event("B", "1"), once()]).expect("good events");
    tx.commit(&mut outbox.connection.clone()).await.expect("it commits");
    let _: u8 = outbox.run("ZADD", "pending", (0, "missing")).await;
    let _: u8 = outbox.run("HSET", "entries", ("lost", "{}")).await;

    let claimed = claim(store).await.expect("the claim works").events;
    let backoff = Backoff::new(1, []);
    let verdicts = [
        Verdict::Done,
        Verdict::Dead { reason: "no".to_owned() },
        Verdict::Failed { error: "no".to_owned(), backoff },
    ];
    let leases = claimed.iter().map(|leased| &leased.lease);
    settle_each(store, leases.zip(verdicts)).await.expect("the settlement works");
    store.repair().await.expect("the repair works");

    let expected = [
        ("duplicates", 2),
        ("enqueued", 3),
        ("orphans.met", 1),
        ("parked_failed", 2),
        ("repaired.bodies", 1),
        ("repaired.members", 1),
    ];
    assert_eq!(counters.counted(), expected.map(|(name, count)| (name.to_owned(), count)));
    outbox.end().await;
}
