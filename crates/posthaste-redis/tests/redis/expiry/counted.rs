//! What is counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::*;

/// Keeps the counters of decisions.
#[derive(Default)]
struct Decisions(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Decisions {
    fn counted(&self) -> Vec<(String, u64)> {
        let counters = self.0.lock().expect("no panic");
        counters.iter().map(|(decision, count)| (decision.clone(), count.load(Ordering::SeqCst))).collect()
    }
}

impl Recorder for Decisions {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let decision = key.labels().find(|label| label.key() == "decision");
        let Some(decision) = decision.filter(|_| key.name() == "outbox.redis.expiries") else {
            return Counter::noop();
        };
        let mut counters = self.0.lock().expect("no panic");
        Counter::from_arc(Arc::clone(counters.entry(decision.value().to_owned()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn decisions_are_counted_by_their_outcome() {
    let decisions = Decisions::default();
    let _guard = metrics::set_default_local_recorder(&decisions);
    let scene = on_one_server(1).await;
    let due = scene.due_since("17", SECOND).await;
    for ticket in ["18", "19"] {
        scene.due_since(ticket, SECOND).await;
    }
    run_once(&scene.expiry).await;
    scene.decide(&due).await;
    scene.due_since("17", SECOND).await;
    scene.decide(&due).await;
    scene.revoke("20").await;
    let due = scene.due_since("20", SECOND).await;
    scene.decide(&due).await;
    let expected = [("already_enqueued", 1), ("enqueued", 3), ("not_due", 1), ("suppressed_revoked", 1)];
    assert_eq!(decisions.counted(), expected.map(|(decision, count)| (decision.to_owned(), count)));
    scene.end().await;
}
