//! Queue of the writers within this process.
//!
//! SQLite lets one connection write at a time, and lets the others sleep for up to a tenth of a second before they try
//! again. Within a process, the store's own connection and the transactions of its Writers queue here instead, in order
//! of arrival, and the next one continues immediately. The queue is only an optimisation: a writer that waited too
//! long, or that does not use it, still waits for SQLite's own lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout};

/// Longer than any write of the store. A transaction of the service that takes longer blocks all writers anyway.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(1);

/// While a service writes, the engine waits for this long before each write, and settles more rows per call instead.
const ENGINE_DELAY: Duration = Duration::from_millis(1);

/// A service that has written this recently is likely to write again.
const RECENT_WRITE_AGE: Duration = Duration::from_millis(2);

#[derive(Clone, Debug, Default)]
pub(crate) struct WriteQueue(Arc<Mutex<LastWritten>>);

/// When a transaction of the service ended last.
type LastWritten = Option<Instant>;

/// The permit to write, until it is dropped. `None` if waiting took too long, and SQLite's own lock decides.
#[derive(Debug)]
pub(crate) struct WritePermit(Option<OwnedMutexGuard<LastWritten>>);

impl WriteQueue {
    /// For a transaction of the service, which reports when it has written.
    pub(super) async fn acquire(&self) -> WritePermit {
        WritePermit(timeout(QUEUE_TIMEOUT, Arc::clone(&self.0).lock_owned()).await.ok())
    }

    /// For the engine, which can wait, because no caller waits for a settlement.
    pub(super) async fn acquire_for_engine(&self) -> WritePermit {
        let busy = match self.0.try_lock() {
            Ok(last) => last.is_some_and(|last| last.elapsed() < RECENT_WRITE_AGE),
            Err(_) => true,
        };
        if busy {
            sleep(ENGINE_DELAY).await;
        }
        self.acquire().await
    }
}

impl WritePermit {
    /// Records that the service has written.
    pub(super) fn written(&mut self) {
        if let Some(last) = &mut self.0 {
            **last = Some(Instant::now());
        }
    }
}
