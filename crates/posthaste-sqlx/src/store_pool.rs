//! Pool of the store's own connections.
//!
//! It is not sqlx's pool: that one pings the server after each use. A ping costs a round trip per call and, in a
//! network that drops packets, blocks a connection for a quarter of an hour. Here a successful call returns its
//! connection as it is. A call that fails or is dropped closes its connection, so a connection with a half-finished
//! statement is never used again.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, Database, Executor, IntoArguments, SqlSafeStr as _};
use sqlx_core::transaction::TransactionManager as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Time limit for getting a connection, and for opening one.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct StorePool<DB: Database> {
    /// With the password; see the `Debug` implementation.
    login: Options<DB>,
    /// Settings of every session, for servers that accept none while a connection is opened.
    settings: Option<&'static str>,
    /// Errors after which a connection can be used again.
    is_harmless: fn(&sqlx::Error) -> bool,
    /// Open connections that no call uses. Emptied after a broken connection, and when the pool is closed.
    idle: Idle<DB>,
    /// One permit per connection that may be open. Closed with the store. Connections are added to `idle` before their
    /// permit is released.
    permits: Arc<Semaphore>,
}

type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

type Idle<DB> = Arc<Mutex<Vec<<DB as Database>::Connection>>>;

/// Leaves out the login, because the driver's type shows its password.
impl<DB: Database> fmt::Debug for StorePool<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} idle, {} free", lock::<DB>(&self.idle).len(), self.permits.available_permits())
    }
}

impl<DB> StorePool<DB>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
{
    pub(crate) fn new(login: Options<DB>, max_connections: usize) -> Self {
        let (idle, permits) = (Idle::<DB>::default(), Arc::new(Semaphore::new(max_connections)));
        Self { login, settings: None, is_harmless: |_| false, idle, permits }
    }

    pub(crate) fn with_settings(self, settings: &'static str) -> Self {
        Self { settings: Some(settings), ..self }
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn unharmed_by(self, is_harmless: fn(&sqlx::Error) -> bool) -> Self {
        Self { is_harmless, ..self }
    }

    /// Runs work on a connection of the pool.
    pub(crate) async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let mut lent = self.lend().await?;
        let result = work(&mut lent).await;
        lent.end(result)
    }

    /// Runs work in a transaction that begins with this statement.
    pub(crate) async fn in_transaction<T>(
        &self,
        begin: &'static str,
        work: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let mut tx = self.begin(begin).await?;
        let result = work(&mut tx).await;
        tx.end_transaction(result).await
    }

    /// Takes a connection and begins a transaction with this statement.
    pub(crate) async fn begin(&self, begin: &'static str) -> sqlx::Result<Lent<DB>> {
        let mut lent = self.lend().await?;
        match DB::TransactionManager::begin(&mut lent, Some(begin.into_sql_str())).await {
            Ok(()) => Ok(lent),
            Err(error) => lent.end(Err(error)),
        }
    }

    async fn lend(&self) -> sqlx::Result<Lent<DB>> {
        let permit = timeout(ACQUIRE_TIMEOUT, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let connection = self.take().await?;
        Ok(Lent { connection, idle: Arc::clone(&self.idle), is_harmless: self.is_harmless, permit })
    }

    /// Closes idle connections. Running calls finish, and no new call gets a connection.
    pub(crate) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *lock::<DB>(&self.idle));
        for connection in idle {
            let _ = timeout(ACQUIRE_TIMEOUT, connection.close()).await;
        }
    }

    /// Opens a connection outside the pool. The caller closes it.
    #[cfg(feature = "postgres")]
    pub(crate) async fn open_another(&self) -> sqlx::Result<DB::Connection> {
        timeout(ACQUIRE_TIMEOUT, self.connect()).await.map_err(|_| sqlx::Error::PoolTimedOut)?
    }

    async fn take(&self) -> sqlx::Result<DB::Connection> {
        let idle = lock::<DB>(&self.idle).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => timeout(ACQUIRE_TIMEOUT, self.connect()).await.map_err(|_| sqlx::Error::PoolTimedOut)?,
        }
    }

    async fn connect(&self) -> sqlx::Result<DB::Connection> {
        let mut connection = self.login.connect().await?;
        if let Some(settings) = self.settings {
            connection.execute(settings).await?;
        }
        Ok(connection)
    }
}

impl<DB: Database> StorePool<DB> {
    pub(crate) fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }
}

fn lock<DB: Database>(idle: &Idle<DB>) -> MutexGuard<'_, Vec<DB::Connection>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection in use. It is closed when dropped.
pub(crate) struct Lent<DB: Database> {
    connection: DB::Connection,
    /// The list to which it returns.
    idle: Idle<DB>,
    is_harmless: fn(&sqlx::Error) -> bool,
    permit: OwnedSemaphorePermit,
}

impl<DB: Database> Lent<DB> {
    /// Commits if the work succeeded. sqlx rolls back a dropped transaction only when its connection is used again, and
    /// the transaction keeps its locks until then. So a connection that returns to the pool is rolled back here.
    pub(crate) async fn end_transaction<T>(mut self, result: sqlx::Result<T>) -> sqlx::Result<T> {
        let ended = match &result {
            Ok(_) => {
                let committed = DB::TransactionManager::commit(&mut self).await;
                if committed.is_err() {
                    DB::TransactionManager::start_rollback(&mut self);
                }
                committed
            }
            Err(error) if (self.is_harmless)(error) => DB::TransactionManager::rollback(&mut self).await,
            Err(_) => Ok(()),
        };
        self.end(ended.and(result))
    }

    /// Returns the connection to the pool if it can be used again.
    fn end<T>(self, result: sqlx::Result<T>) -> sqlx::Result<T> {
        let mut idle = lock::<DB>(&self.idle);
        match &result {
            // The server is gone, and the idle connections are broken too.
            Err(sqlx::Error::Io(_)) => idle.clear(),
            Err(error) if !(self.is_harmless)(error) => {}
            _ if self.permit.semaphore().is_closed() => {}
            _ => idle.push(self.connection),
        }
        drop(idle);
        result
    }
}

impl<DB: Database> Deref for Lent<DB> {
    type Target = DB::Connection;
    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: Database> DerefMut for Lent<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

/// True if the server could not be reached or the connection broke.
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() != io::ErrorKind::InvalidData,
        sqlx::Error::PoolTimedOut => true,
        _ => false,
    }
}
