//! A pool of the store's own connections.
//!
//! Not a pool of sqlx: that one asks the server after every use whether the connection is still there,
//! which costs a round trip per call and, when a network swallows packets, a connection for a quarter of
//! an hour. Here a call that succeeds gives its connection back as it is, and a call that fails or is
//! dropped takes it along: nothing half done is ever lent again.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::{ConnectOptions, Connection, Database, Executor, IntoArguments, SqlSafeStr as _};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long anybody waits for a connection, and for the server to accept one.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct StorePool<DB: Database> {
    login: Options<DB>,
    /// Settings of every session, for servers that take none while a connection is opened.
    settings: Option<&'static str>,
    /// Errors after which a connection is as good as before.
    is_harmless: fn(&sqlx::Error) -> bool,
    idle: Mutex<Vec<DB::Connection>>,
    /// One permit per connection that may be open; closed with the store.
    permits: Semaphore,
}

type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// Without the login, whose password the driver's own type shows.
impl<DB: Database> fmt::Debug for StorePool<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} idle, {} free", self.idle().len(), self.permits.available_permits())
    }
}

impl<DB> StorePool<DB>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
{
    pub(crate) fn new(login: Options<DB>, max_connections: usize) -> Self {
        let (idle, permits) = (Mutex::default(), Semaphore::new(max_connections));
        Self { login, settings: None, is_harmless: |_| false, idle, permits }
    }

    pub(crate) fn with_settings(self, settings: &'static str) -> Self {
        Self { settings: Some(settings), ..self }
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn unharmed_by(self, is_harmless: fn(&sqlx::Error) -> bool) -> Self {
        Self { is_harmless, ..self }
    }

    /// Runs work on a connection of its own.
    pub(crate) async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut DB::Connection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let permit =
            timeout(ACQUIRE_TIMEOUT, self.permits.acquire()).await.map_err(|_| sqlx::Error::PoolTimedOut)?;
        let _permit = permit.map_err(|_closed| sqlx::Error::PoolClosed)?;
        let mut connection = self.take().await?;
        match work(&mut connection).await {
            Ok(answer) => {
                self.give_back(connection);
                Ok(answer)
            }
            Err(error) => {
                if (self.is_harmless)(&error) {
                    self.give_back(connection);
                } else if matches!(error, sqlx::Error::Io(_)) {
                    // The server went away, and so did the others' way to it.
                    self.idle().clear();
                }
                Err(error)
            }
        }
    }

    /// The same in a transaction that begins with this statement.
    pub(crate) async fn in_transaction<T>(
        &self,
        begin: &'static str,
        work: impl AsyncFnOnce(&mut DB::Connection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        self.with(async |connection| {
            let mut tx = connection.begin_with(begin.into_sql_str()).await?;
            match work(&mut tx).await {
                Ok(answer) => {
                    tx.commit().await?;
                    Ok(answer)
                }
                Err(error) => {
                    if (self.is_harmless)(&error) {
                        // A transaction that is dropped is rolled back when its connection is used again,
                        // and keeps its locks until then.
                        tx.rollback().await?;
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    /// Closes what is idle; who works goes on, and nobody begins.
    pub(crate) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        for connection in idle {
            let _ = timeout(ACQUIRE_TIMEOUT, connection.close()).await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// A connection outside the pool, which the caller closes.
    #[cfg(feature = "postgres")]
    pub(crate) async fn open_another(&self) -> Result<DB::Connection, sqlx::Error> {
        timeout(ACQUIRE_TIMEOUT, self.connect()).await.map_err(|_| sqlx::Error::PoolTimedOut)?
    }

    async fn take(&self) -> Result<DB::Connection, sqlx::Error> {
        let idle = self.idle().pop();
        match idle {
            Some(connection) => Ok(connection),
            None => timeout(ACQUIRE_TIMEOUT, self.connect()).await.map_err(|_| sqlx::Error::PoolTimedOut)?,
        }
    }

    async fn connect(&self) -> Result<DB::Connection, sqlx::Error> {
        let mut connection = self.login.connect().await?;
        if let Some(settings) = self.settings {
            connection.execute(settings).await?;
        }
        Ok(connection)
    }

    fn give_back(&self, connection: DB::Connection) {
        if !self.is_closed() {
            self.idle().push(connection);
        }
    }
}

impl<DB: Database> StorePool<DB> {
    fn idle(&self) -> MutexGuard<'_, Vec<DB::Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
