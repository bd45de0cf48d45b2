//! The queue of those who want to write within this process.
//!
//! SQLite lets one connection write at a time, and lets the others sleep for up to a tenth of a second
//! before they look again. Within a process, the store's own connection and the transactions of its
//! writers queue up here instead, first come, first served, and the next one goes on at once. It is a
//! courtesy, not a lock: whoever waited long enough, or never asked, is served by SQLite's own lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout};

/// Longer than any write of ours; a transaction of the service that takes longer holds up everybody
/// anyway.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(1);

/// While a service writes, the engine lets it go first for so long, and settles more at once instead.
const ENGINE_DELAY: Duration = Duration::from_millis(1);

/// A service that has written so recently will write again.
const RECENT_WRITE_AGE: Duration = Duration::from_millis(2);

#[derive(Clone, Debug, Default)]
pub(crate) struct WriteQueue(Arc<Mutex<LastWritten>>);

/// When a transaction of the service ended last.
type LastWritten = Option<Instant>;

/// The permit to write, until it is dropped. None if waiting took too long.
#[derive(Debug)]
pub(crate) struct WritePermit(Option<OwnedMutexGuard<LastWritten>>);

impl WriteQueue {
    /// For a transaction of the service; it says when it is over.
    pub(super) async fn acquire(&self) -> WritePermit {
        WritePermit(timeout(QUEUE_TIMEOUT, Arc::clone(&self.0).lock_owned()).await.ok())
    }

    /// For the engine, which is in no hurry: nobody waits for a settlement.
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
    /// The service has written.
    pub(super) fn written(&mut self) {
        if let Some(last) = &mut self.0 {
            **last = Some(Instant::now());
        }
    }
}
