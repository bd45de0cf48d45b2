//! An outbox that only writes has nothing that only an engine needs.

use posthaste::config::{PollerConfig, QueueConfig};
use posthaste::{Config, MemoryStore, Mode, Outbox, Routes};

/// Nothing polls and nothing queues where nothing is delivered: a file that says otherwise is mistaken.
#[test]
fn writer_only_refuses_what_only_an_engine_needs() {
    let poller = PollerConfig { batch: 7, ..PollerConfig::default() };
    let queue = QueueConfig { hot: 7, ..QueueConfig::default() };
    let writer_only = Config { mode: Mode::WriterOnly, ..Config::default() };
    let config = Config { poller, queue, ..writer_only.clone() };
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
