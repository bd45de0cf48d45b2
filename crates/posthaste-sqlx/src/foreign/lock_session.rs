//! The database session that holds the lock of a foreign table.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::server::Server;
use super::session::Session;

/// Time limit for opening the connection and for the reply to a ping.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of pings. The server ends a session that is silent for several times as long, so that the lock of a machine
/// that vanished becomes free soon. A leader that polls once an hour must not look as if it had vanished.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The one session that claims, and that writes back what only the lock holder may write.
///
/// A call that is dropped, or whose connection fails, closes the connection and so releases the lock. A session that
/// holds the lock therefore never has a half-finished statement.
pub(crate) struct LockSession {
    server: Arc<dyn Server>,
    /// The interval of pings.
    keepalive_interval: Duration,
    /// Locked for the duration of each call, so that one call at a time uses the session.
    open: Arc<Slot>,
    /// Set when the store is closed. No call takes the lock after that.
    closed: AtomicBool,
}

/// Contains the connection while no call uses it.
type Slot = Mutex<Option<OpenSession>>;

/// An open connection, and whether it holds the lock.
pub(crate) struct OpenSession {
    pub(crate) session: Box<dyn Session>,
    /// True while the session holds the lock of the table, as far as the last statement has shown.
    pub(crate) leads: bool,
    _keepalive: KeepAliveTask,
}

/// The ping task. It ends with the connection that it keeps alive.
struct KeepAliveTask(AbortHandle);

impl Drop for KeepAliveTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection in use. It is closed when dropped; [`give_back`](Self::give_back) keeps it.
pub(crate) struct SessionGuard<'s> {
    slot: MutexGuard<'s, Option<OpenSession>>,
    pub(crate) open: OpenSession,
}

impl fmt::Debug for LockSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockSession")
    }
}

impl LockSession {
    pub(crate) fn new(server: Arc<dyn Server>) -> Self {
        let (keepalive_interval, closed) = (KEEPALIVE_INTERVAL, AtomicBool::new(false));
        Self { server, keepalive_interval, open: Arc::default(), closed }
    }

    #[cfg(all(test, feature = "mysql"))]
    pub(crate) fn with_keepalive_interval(self, keepalive_interval: Duration) -> Self {
        Self { keepalive_interval, ..self }
    }

    /// Takes the connection, and opens a new one if the slot is empty.
    pub(crate) async fn take(&self) -> Result<SessionGuard<'_>, sqlx::Error> {
        let mut slot = self.open.lock().await;
        if self.closed.load(Ordering::Acquire) {
            return Err(sqlx::Error::PoolClosed);
        }
        let open = match slot.take() {
            Some(open) => open,
            None => {
                let session = timeout(RESPONSE_TIMEOUT, self.server.connect());
                let session = session.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
                let task = tokio::spawn(keep_alive(Arc::downgrade(&self.open), self.keepalive_interval));
                OpenSession { session, leads: false, _keepalive: KeepAliveTask(task.abort_handle()) }
            }
        };
        Ok(SessionGuard { slot, open })
    }

    /// Closes the connection, so that another process can take the lock immediately.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(open) = self.open.lock().await.take() {
            let _ = timeout(RESPONSE_TIMEOUT, open.session.close()).await;
        }
    }
}

/// Pings the server at intervals. A connection in use needs no ping. A connection on which the server does not reply is
/// dropped, with its lock.
async fn keep_alive(slot: Weak<Slot>, keepalive_interval: Duration) {
    loop {
        tokio::time::sleep(keepalive_interval).await;
        let Some(slot) = slot.upgrade() else { return };
        let Ok(mut slot) = slot.try_lock() else { continue };
        let Some(mut open) = slot.take() else { return };
        if let Ok(Ok(())) = timeout(RESPONSE_TIMEOUT, open.session.ping()).await {
            *slot = Some(open);
        }
    }
}

impl SessionGuard<'_> {
    /// Keeps the connection after a reply of the server, also after an error: the connection still works, and a refused
    /// statement must not cost the lock.
    pub(crate) fn end<T>(self, result: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        let works = match &result {
            Ok(_) => true,
            Err(sqlx::Error::Database(error)) => !error.code().is_some_and(|code| ends_session(&code)),
            Err(_) => false,
        };
        if works {
            self.give_back();
        }
        result
    }

    /// Returns the connection to its slot, still usable.
    pub(crate) fn give_back(mut self) {
        *self.slot = Some(self.open);
    }
}

/// True if the server has ended the session: it shuts down, or an administrator ended the session. The codes are
/// SQLSTATE codes, some of them specific to PostgreSQL or MySQL.
fn ends_session(code: &str) -> bool {
    code.starts_with("57P") || code.starts_with("08") || code == "70100"
}
