//! A few connections of the store's own.
//!
//! Not a pool of sqlx: that one asks the server after every use whether the connection is still there,
//! which costs a round trip per call and, when a network swallows packets, a connection for a quarter of
//! an hour. Here a call that succeeds gives its connection back as it is, and a call that fails or is
//! dropped takes it along: nothing half done is ever lent again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::{ConnectOptions as _, Connection as _, PgConnection, SqlSafeStr as _};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection::Login;

/// How long anybody waits for a connection, and for the server to accept one.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Few {
    login: Login,
    idle: Mutex<Vec<PgConnection>>,
    /// One permit per connection that may be open; closed with the store.
    turns: Semaphore,
}

impl Few {
    pub(super) fn new(login: Login, most: usize) -> Self {
        Self { login, idle: Mutex::default(), turns: Semaphore::new(most) }
    }

    /// Runs work on a connection of its own.
    pub(super) async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let turn = timeout(PATIENCE, self.turns.acquire()).await.map_err(|_| sqlx::Error::PoolTimedOut)?;
        let _turn = turn.map_err(|_closed| sqlx::Error::PoolClosed)?;
        let mut connection = self.take().await?;
        match work(&mut connection).await {
            Ok(answer) => {
                self.give_back(connection);
                Ok(answer)
            }
            Err(error) => {
                if matches!(error, sqlx::Error::Io(_)) {
                    // The server went away, and so did the others' way to it.
                    self.idle().clear();
                }
                Err(error)
            }
        }
    }

    /// The same in a transaction that begins with this statement.
    pub(super) async fn together<T>(
        &self,
        begin: &'static str,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        self.with(async |connection| {
            let mut tx = connection.begin_with(begin.into_sql_str()).await?;
            let answer = work(&mut tx).await?;
            tx.commit().await?;
            Ok(answer)
        })
        .await
    }

    /// Closes what is idle; who works goes on, and nobody begins.
    pub(super) async fn close(&self) {
        self.turns.close();
        let idle = std::mem::take(&mut *self.idle());
        for connection in idle {
            let _ = timeout(PATIENCE, connection.close()).await;
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.turns.is_closed()
    }

    async fn take(&self) -> Result<PgConnection, sqlx::Error> {
        let idle = self.idle().pop();
        match idle {
            Some(connection) => Ok(connection),
            None => timeout(PATIENCE, self.login.connect()).await.map_err(|_| sqlx::Error::PoolTimedOut)?,
        }
    }

    fn give_back(&self, connection: PgConnection) {
        if !self.is_closed() {
            self.idle().push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PgConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
