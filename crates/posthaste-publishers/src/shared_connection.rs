//! The connection that all deliveries of a publisher share.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Holds one connection, opened on first use and discarded when it has failed.
///
/// One attempt to connect runs at a time. A caller that waited for an attempt that failed gets its error and starts
/// no attempt of its own.
pub(crate) struct SharedConnection<C> {
    /// The connection in use. `None` before the first attempt and after `give_up`. Locked only to read or replace
    /// it, never while connecting.
    current: Mutex<Option<Arc<C>>>,
    /// Held during an attempt to connect, before `current` is locked. Contains the last failed attempt.
    connecting: tokio::sync::Mutex<Option<FailedAttempt>>,
}

struct FailedAttempt {
    at: Instant,
    why: String,
}

impl<C> SharedConnection<C> {
    /// Returns the current connection if `is_good` accepts it, and otherwise the one that `connect` opens.
    pub(crate) async fn get(
        &self,
        is_good: impl Fn(&C) -> bool,
        connect: impl Future<Output = Result<C, String>>,
    ) -> Result<Arc<C>, String> {
        let asked_at = Instant::now();
        let current = || self.current().as_ref().filter(|connection| is_good(connection)).cloned();
        if let Some(connection) = current() {
            return Ok(connection);
        }
        let mut failed = self.connecting.lock().await;
        if let Some(connection) = current() {
            return Ok(connection);
        }
        if let Some(failed) = failed.as_ref().filter(|failed| failed.at >= asked_at) {
            return Err(failed.why.clone());
        }
        match connect.await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *self.current() = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(why) => {
                *failed = Some(FailedAttempt { at: Instant::now(), why: why.clone() });
                Err(why)
            }
        }
    }

    /// Discards this connection, so that the next delivery opens a new one. Does nothing if it was replaced
    /// already.
    pub(crate) fn give_up(&self, broken: &Arc<C>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, broken)) {
            *current = None;
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<C>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Default for SharedConnection<C> {
    fn default() -> Self {
        Self { current: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn waiting_callers_share_one_attempt_and_its_error() {
        let shared = SharedConnection::<()>::default();
        let attempts = AtomicUsize::new(0);
        let attempt = || async {
            attempts.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Err("connection refused".to_owned())
        };
        let all = futures_util::future::join_all((0..8).map(|_| shared.get(|()| true, attempt()))).await;
        assert!(all.into_iter().all(|result| result == Err("connection refused".to_owned())));
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
        assert!(shared.get(|()| true, attempt()).await.is_err());
        assert_eq!(attempts.load(Ordering::SeqCst), 2, "a later caller tries again");
    }

    #[tokio::test]
    async fn connection_is_shared_until_it_is_given_up() {
        let shared = SharedConnection::<usize>::default();
        let one = shared.get(|_| true, async { Ok(1) }).await.expect("a connection");
        assert_eq!(shared.get(|_| true, async { Ok(2) }).await.as_deref(), Ok(&1));
        shared.give_up(&one);
        let two = shared.get(|_| true, async { Ok(2) }).await.expect("a connection");
        shared.give_up(&one);
        assert_eq!(shared.get(|_| true, async { Ok(3) }).await.as_deref(), Ok(&2));
        assert_eq!(shared.get(|number| *number != *two, async { Ok(4) }).await.as_deref(), Ok(&4));
    }
}
