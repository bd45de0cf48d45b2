//! `posthaste relay` as operators run it: the real binary on real stores, controlled by flags, files and signals.

use crate::shop::Shop;

mod deliver;
pub(crate) mod file_sink;
#[cfg(target_os = "linux")]
mod large_events;
mod log;
mod openapi;
pub(crate) mod process;
mod ready;
mod reload;
mod restart;
mod secrets;
mod slow_queries;
mod start;
mod stop;
mod tail;
mod webhook;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use file_sink::Sink;

/// The ids `from..from + count`, in the order in which they are written.
pub(crate) fn ids(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|n| format!("e-{n:06}")).collect()
}

/// A service that writes events in the background until it is stopped or the test fails.
pub(crate) struct Load<'a> {
    outbox: &'a Shop,
    written: AtomicUsize,
    stop: AtomicBool,
}

impl<'a> Load<'a> {
    /// Events per transaction.
    const EVENTS_PER_TRANSACTION: usize = 20;

    pub(crate) fn new(outbox: &'a Shop) -> Self {
        Self { outbox, written: AtomicUsize::new(0), stop: AtomicBool::new(false) }
    }

    /// Writes while `work` runs. Returns how many events were written.
    pub(crate) fn during(&self, work: impl FnOnce()) -> usize {
        std::thread::scope(|scope| {
            scope.spawn(|| self.write());
            let _stop = StopOnDrop(&self.stop);
            work();
        });
        self.written()
    }

    fn write(&self) {
        while !self.stop.load(Ordering::Acquire) {
            let from = self.written();
            self.outbox.write(&ids(from, Self::EVENTS_PER_TRANSACTION));
            self.written.store(from + Self::EVENTS_PER_TRANSACTION, Ordering::Release);
        }
    }

    /// Number of events committed so far.
    pub(crate) fn written(&self) -> usize {
        self.written.load(Ordering::Acquire)
    }

    /// An event that has not been written yet.
    pub(crate) fn later(&self) -> Vec<String> {
        ids(self.written() + 2 * Self::EVENTS_PER_TRANSACTION, 1)
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The options of a relay with one outbox on this store, which listens on a free port.
pub(crate) fn options(outbox: &Shop, more: &[&str]) -> Vec<String> {
    let mut options = outbox.options();
    options.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
    options.extend(more.iter().map(|&word| word.to_owned()));
    options
}

/// Writes a configuration file with one outbox on this store and these settings. Returns the options that name it.
pub(crate) fn file(sink: &Sink, outbox: &Shop, settings: &str) -> Vec<String> {
    let path = sink.path("posthaste.toml");
    let text = format!("[admin]\nlisten = \"127.0.0.1:0\"\n\n[outbox.shop]\n{}{settings}", outbox.toml());
    std::fs::write(&path, text).expect("a file");
    vec!["--config".to_owned(), path.display().to_string()]
}
