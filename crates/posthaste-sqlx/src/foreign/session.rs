//! One connection that may hold the lock of a foreign table.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, Database, Executor};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// How long anybody waits for the server to accept the connection, or to answer a sign of life.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server ends a session that is silent for several times as long, so that the lock of a machine that vanished
/// is free soon; a leader that polls once an hour must not be taken for one.
const PULSE: Duration = Duration::from_secs(15);

/// The one session that claims, and writes back what only the holder of the lock may write.
///
/// A call that is dropped, or whose connection fails, takes the connection along, and the lock with it: whoever has
/// the lock has a connection on which nothing is half done.
pub(crate) struct Session<DB: Database> {
    login: <DB::Connection as Connection>::Options,
    /// What the session is told first.
    settings: &'static [&'static str],
    /// How often the server gets a sign of life.
    pulse: Duration,
    open: Arc<Place<DB>>,
    /// Nobody takes the lock again for a store that was closed.
    closed: AtomicBool,
}

/// Where the connection is while nobody uses it.
type Place<DB> = Mutex<Option<Open<DB>>>;

/// An open connection, and whether it has the lock.
pub(crate) struct Open<DB: Database> {
    pub(crate) connection: DB::Connection,
    pub(crate) leads: bool,
    _pulse: Pulse,
}

/// A task that ends with the connection that it keeps alive.
struct Pulse(AbortHandle);

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection in use. Dropped, it is closed; [`give_back`](Self::give_back) keeps it.
pub(crate) struct InUse<'s, DB: Database> {
    place: MutexGuard<'s, Option<Open<DB>>>,
    pub(crate) open: Open<DB>,
}

/// Without the login, whose password the driver's own type shows.
impl<DB: Database> fmt::Debug for Session<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

impl<DB: Database> Session<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    pub(crate) fn new(
        login: <DB::Connection as Connection>::Options,
        settings: &'static [&'static str],
    ) -> Self {
        Self { login, settings, pulse: PULSE, open: Arc::default(), closed: AtomicBool::new(false) }
    }

    #[cfg(all(test, feature = "mysql"))]
    pub(crate) fn with_pulse(self, pulse: Duration) -> Self {
        Self { pulse, ..self }
    }

    /// The connection, opened if there is none.
    pub(crate) async fn take(&self) -> Result<InUse<'_, DB>, sqlx::Error> {
        let mut place = self.open.lock().await;
        if self.closed.load(Ordering::Acquire) {
            return Err(sqlx::Error::PoolClosed);
        }
        let open = match place.take() {
            Some(open) => open,
            None => {
                let connection = timeout(PATIENCE, self.connect());
                let connection = connection.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
                let pulse = tokio::spawn(keep_alive(Arc::downgrade(&self.open), self.pulse));
                Open { connection, leads: false, _pulse: Pulse(pulse.abort_handle()) }
            }
        };
        Ok(InUse { place, open })
    }

    async fn connect(&self) -> Result<DB::Connection, sqlx::Error> {
        let mut connection = self.login.connect().await?;
        for setting in self.settings {
            connection.execute(*setting).await?;
        }
        Ok(connection)
    }

    /// Ends the connection, so that another process has the lock at once.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(open) = self.open.lock().await.take() {
            let _ = timeout(PATIENCE, open.connection.close()).await;
        }
    }
}

/// Gives the server a sign of life now and then. A connection that is in use needs none, and one on which the server
/// does not answer is dropped, with its lock.
async fn keep_alive<DB: Database>(place: Weak<Place<DB>>, pulse: Duration) {
    loop {
        tokio::time::sleep(pulse).await;
        let Some(place) = place.upgrade() else { return };
        let Ok(mut place) = place.try_lock() else { continue };
        let Some(mut open) = place.take() else { return };
        if let Ok(Ok(())) = timeout(PATIENCE, open.connection.ping()).await {
            *place = Some(open);
        }
    }
}

impl<DB: Database> InUse<'_, DB> {
    /// Keeps the connection after an answer of the server, be it an error: then the connection still works. A lock
    /// must not be lost because a statement was refused.
    pub(crate) fn end<T>(self, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        let works = match &answer {
            Ok(_) => true,
            Err(sqlx::Error::Database(error)) => !error.code().is_some_and(|code| is_farewell(&code)),
            Err(_) => false,
        };
        if works {
            self.give_back();
        }
        answer
    }

    /// The connection is as good as before.
    pub(crate) fn give_back(mut self) {
        *self.place = Some(self.open);
    }
}

/// Whether a server that answers this has ended the session: it shuts down, or somebody has ended it. The codes are
/// those of the SQL standard, and of PostgreSQL and MySQL beyond it.
fn is_farewell(code: &str) -> bool {
    code.starts_with("57P") || code.starts_with("08") || code == "70100"
}
