//! A writer-only outbox: no setting that only an engine uses.

use posthaste::{Config, MemoryStore, Mode, Outbox, Recorder, Route, Routes};

/// Nothing polls and nothing queues, so a file with such settings is wrong.
#[test]
fn writer_only_refuses_what_only_an_engine_needs() {
    let mut writer_only = Config::default();
    writer_only.mode = Mode::WriterOnly;
    let mut config = writer_only.clone();
    config.poller.batch = 7;
    config.queue.hot = 7;
    let error = config.validate().expect_err("nothing polls and nothing queues");
    let settings: Vec<_> = error.problems.iter().map(|problem| problem.setting.as_str()).collect();
    assert_eq!(settings, ["poller", "queue"]);
    let builder = Outbox::from_config(MemoryStore::new(), writer_only, Routes::new());
    let error = builder
        .interceptor(posthaste::interceptor::before(|_| Ok(())))
        .build()
        .expect_err("nothing is dispatched");
    assert!(error.to_string().contains("leave out interceptors"), "{error}");
}

/// Routes would be ignored, and their events would never be delivered.
#[test]
fn writer_only_refuses_routes_and_names_the_right_place() {
    let routes = Routes::new().add(Route::fallback().deliver_to(Recorder::new()));
    let error = Outbox::builder(MemoryStore::new(), routes).writer_only().build().expect_err("a route");
    assert_eq!(error.problems.len(), 1, "{error}");
    assert!(error.to_string().contains("routes: writer_only delivers nothing"), "{error}");
}
