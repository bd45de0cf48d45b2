//! The database server of a foreign table: everything that PostgreSQL and MySQL do differently.

use std::collections::{HashMap, HashSet};
use std::fmt;

use async_trait::async_trait;
use posthaste::{EventId, StoreError};

use super::resolved_layout::{Dialect, ResolvedLayout};
use super::row_key::{AttemptCount, FailedAttempt, RowKey};
use super::session::{BoundQuery, QueryRow, Session};
use crate::{OpenError, TableName};

/// The caller of a statement. Each has its own connections, and so have changes by operators: the engine never waits
/// for operators, and a change never waits for queries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    Engine,
    Operator,
}

/// The database server of a foreign table.
#[async_trait]
pub(crate) trait Server: fmt::Debug + Send + Sync {
    fn dialect(&self) -> &'static Dialect;

    /// The server and database in words, for errors and logs.
    fn name(&self) -> &str;

    /// Explains an error to the operator, where it is known.
    fn explain(&self, error: sqlx::Error) -> OpenError;

    /// Opens the session that takes the lock of the table.
    async fn connect(&self) -> Result<Box<dyn Session>, sqlx::Error>;

    /// Refuses a server without sessions. Behind a pooler in transaction mode no session lock can be held.
    async fn expect_sessions(&self, table: &TableName) -> Result<(), OpenError> {
        let _ = table;
        Ok(())
    }

    /// Runs a statement that only reads, and returns its rows.
    async fn query(&self, caller: Caller, query: &BoundQuery) -> Result<Vec<Box<QueryRow>>, StoreError>;

    /// Runs a statement that changes rows. Returns their number.
    async fn change(&self, caller: Caller, query: &BoundQuery) -> Result<u64, StoreError>;

    /// Sets columns of the pending rows with these keys, or deletes them. Returns the rows that were pending.
    async fn settle_delivered(
        &self,
        resolved: &ResolvedLayout,
        set: Option<&str>,
        keys: &[RowKey],
    ) -> Result<HashSet<EventId>, StoreError>;

    /// Counts failed attempts, all of them or none, in the session that holds the lock. Returns the counts of the rows
    /// that were pending.
    async fn count_failures(
        &self,
        session: &mut dyn Session,
        resolved: &ResolvedLayout,
        failures: &[FailedAttempt],
    ) -> Result<HashMap<EventId, AttemptCount>, sqlx::Error>;

    /// Gives up rows, all of them or none, in the session that holds the lock. Returns those that were pending.
    async fn give_up(
        &self,
        session: &mut dyn Session,
        resolved: &ResolvedLayout,
        rows: &[(RowKey, String)],
    ) -> Result<HashSet<EventId>, sqlx::Error>;

    async fn close(&self);

    fn failed(&self, error: sqlx::Error) -> StoreError {
        let name = self.dialect().server;
        match self.explain(error) {
            OpenError::Database(error) => StoreError::backend(name, error),
            known => StoreError::backend(name, known),
        }
    }
}
