//! Interceptors: their order, and the effect of a refusal or a panic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use posthaste::{BoxError, Delivery, Interceptor, Outcome, Recorder, Status, Unrecoverable, interceptor};

use crate::support::*;

struct NamedInterceptor(&'static str, Arc<Mutex<Vec<String>>>);

impl Interceptor for NamedInterceptor {
    fn before(&self, _: &Delivery) -> Result<(), BoxError> {
        self.1.lock().expect("log").push(format!("before {}", self.0));
        Ok(())
    }

    fn after(&self, _: &Delivery, outcome: &Outcome) {
        let done = outcome.is_done();
        self.1.lock().expect("log").push(format!("after {} {done}", self.0));
    }
}

// S3-71, S3-75
#[tokio::test(start_paused = true)]
async fn interceptors_run_in_order_before_and_in_reverse_after() {
    let (store, log) = (FaultyStore::new(), Arc::new(Mutex::new(Vec::new())));
    let destination = Recorder::with({
        let log = Arc::clone(&log);
        move |_| {
            log.lock().expect("log").push("deliver".to_owned());
            Outcome::done()
        }
    });
    let shared: Arc<dyn Interceptor> = Arc::new(NamedInterceptor("c", Arc::clone(&log)));
    let outbox = single_node(&store, routes_to(&destination))
        .interceptor(NamedInterceptor("a", Arc::clone(&log)))
        .interceptor(NamedInterceptor("b", Arc::clone(&log)))
        .interceptor(shared)
        .start()
        .expect("start");
    commit_one(&store.inner, &outbox, "Made").await;
    outbox.idle().await.expect("idle");
    let expected =
        ["before a", "before b", "before c", "deliver", "after c true", "after b true", "after a true"];
    assert_eq!(*log.lock().expect("log"), expected);
}

// S3-83, S3-84
#[tokio::test(start_paused = true)]
async fn interceptor_that_refuses_or_panics_before_is_a_failed_attempt_without_a_delivery() {
    for panics in [false, true] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let later = Arc::new(AtomicUsize::new(0));
        let refuse = interceptor::before(move |_| if panics { panic!("oh") } else { Err("not now".into()) });
        let count = Arc::clone(&later);
        let never = interceptor::before(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let outbox = single_node(&store, routes_to(&recorder))
            .interceptor(refuse)
            .interceptor(never)
            .retry(plain_retry(2))
            .start()
            .expect("start");
        let id = commit_one(&store.inner, &outbox, "Made").await;
        eventually(secs(2), || status(&store.inner, &id) == Status::Dead).await;
        let row = row(&store.inner, &id);
        let expected = if panics { "an interceptor panicked: oh" } else { "not now" };
        assert_eq!((row.attempts, row.last_error.as_deref()), (2, Some(expected)));
        assert_eq!((recorder.count(), later.load(Ordering::SeqCst)), (0, 0));
    }
}

// S3-83
#[tokio::test(start_paused = true)]
async fn interceptor_that_refuses_with_unrecoverable_makes_the_event_dead() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let refuse = interceptor::before(|_| Err(Unrecoverable("forbidden".to_owned()).into()));
    let outbox = single_node(&store, routes_to(&recorder)).interceptor(refuse).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || status(&store.inner, &id) == Status::Dead).await;
    assert_eq!(row(&store.inner, &id).last_error.as_deref(), Some("forbidden"));
}

// S3-83
#[tokio::test(start_paused = true)]
async fn interceptor_that_panics_after_changes_nothing_and_other_interceptors_still_run() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let outbox = single_node(&store, routes_to(&recorder))
        .interceptor(Arc::new(NamedInterceptor("first", Arc::clone(&log))))
        .interceptor(interceptor::after(|_, _| panic!("oh")))
        .start()
        .expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    outbox.idle().await.expect("idle");
    assert_eq!(status(&store.inner, &id), Status::Done);
    assert_eq!(*log.lock().expect("log"), ["before first", "after first true"]);
    assert_each_once(&recorder, &[id]);
}
