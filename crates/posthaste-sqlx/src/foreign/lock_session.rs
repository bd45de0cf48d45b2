//! One connection that may hold the lock of a foreign table.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::server::Server;
use super::session::Session;

/// How long anybody waits for the server to accept the connection, or to answer a sign of life.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The server ends a session that is silent for several times as long, so that the lock of a machine that vanished
/// is free soon; a leader that polls once an hour must not be taken for one.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The one session that claims, and writes back what only the holder of the lock may write.
///
/// A call that is dropped, or whose connection fails, takes the connection along, and the lock with it: whoever has
/// the lock has a connection on which nothing is half done.
pub(crate) struct LockSession {
    server: Arc<dyn Server>,
    /// How often the server gets a sign of life.
    keepalive_interval: Duration,
    open: Arc<Slot>,
    /// Nobody takes the lock again for a store that was closed.
    closed: AtomicBool,
}

/// Where the connection is while nobody uses it.
type Slot = Mutex<Option<OpenSession>>;

/// An open connection, and whether it has the lock.
pub(crate) struct OpenSession {
    pub(crate) session: Box<dyn Session>,
    pub(crate) leads: bool,
    _keepalive: KeepAliveTask,
}

/// A task that ends with the connection that it keeps alive.
struct KeepAliveTask(AbortHandle);

impl Drop for KeepAliveTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection in use. Dropped, it is closed; [`give_back`](Self::give_back) keeps it.
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

    /// The connection, opened if there is none.
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

    /// Ends the connection, so that another process has the lock at once.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(open) = self.open.lock().await.take() {
            let _ = timeout(RESPONSE_TIMEOUT, open.session.close()).await;
        }
    }
}

/// Gives the server a sign of life now and then. A connection that is in use needs none, and one on which the server
/// does not answer is dropped, with its lock.
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
    /// Keeps the connection after an answer of the server, be it an error: then the connection still works. A lock
    /// must not be lost because a statement was refused.
    pub(crate) fn end<T>(self, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        let works = match &answer {
            Ok(_) => true,
            Err(sqlx::Error::Database(error)) => !error.code().is_some_and(|code| ends_session(&code)),
            Err(_) => false,
        };
        if works {
            self.give_back();
        }
        answer
    }

    /// The connection is as good as before.
    pub(crate) fn give_back(mut self) {
        *self.slot = Some(self.open);
    }
}

/// Whether a server that answers this has ended the session: it shuts down, or somebody has ended it. The codes are
/// those of the SQL standard, and of PostgreSQL and MySQL beyond it.
fn ends_session(code: &str) -> bool {
    code.starts_with("57P") || code.starts_with("08") || code == "70100"
}
