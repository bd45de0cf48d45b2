//! The database server of a foreign table: who it is, and what the databases do each in its own way.

use std::collections::{HashMap, HashSet};
use std::fmt;

use async_trait::async_trait;
use posthaste::{EventId, StoreError};

use super::resolved_layout::{Dialect, ResolvedLayout};
use super::row_key::{AttemptCount, FailedAttempt, RowKey};
use super::session::{BoundQuery, QueryRow, Session};
use crate::{OpenError, TableName};

/// Who runs a statement. Each has connections of its own, and so has what an operator changes: the engine never waits
/// for operators, and a change never waits for questions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    Engine,
    Operator,
}

/// The database server of a foreign table.
#[async_trait]
pub(crate) trait Server: fmt::Debug + Send + Sync {
    fn dialect(&self) -> &'static Dialect;

    /// The server and database as a person would name them.
    fn name(&self) -> &str;

    /// What an error means and what to do, where that is known.
    fn explain(&self, error: sqlx::Error) -> OpenError;

    /// Opens the session that takes the lock of the table.
    async fn connect(&self) -> Result<Box<dyn Session>, sqlx::Error>;

    /// Refuses a server that has no sessions: behind some poolers no lock can be held.
    async fn expect_sessions(&self, table: &TableName) -> Result<(), OpenError> {
        let _ = table;
        Ok(())
    }

    /// Runs a statement that only reads, and returns its rows.
    async fn query(&self, caller: Caller, query: &BoundQuery) -> Result<Vec<Box<QueryRow>>, StoreError>;

    /// Runs a statement that changes rows; returns how many.
    async fn change(&self, caller: Caller, query: &BoundQuery) -> Result<u64, StoreError>;

    /// Sets this in the pending rows of these keys, or deletes them; returns which were pending.
    async fn settle_delivered(
        &self,
        resolved: &ResolvedLayout,
        set: Option<&str>,
        keys: &[RowKey],
    ) -> Result<HashSet<EventId>, StoreError>;

    /// Counts failed attempts in the session that has the lock, all of them or none; returns the counts of rows that
    /// were pending.
    async fn count_failures(
        &self,
        session: &mut dyn Session,
        resolved: &ResolvedLayout,
        failures: &[FailedAttempt],
    ) -> Result<HashMap<EventId, AttemptCount>, sqlx::Error>;

    /// Gives rows up in the session that has the lock, all of them or none; returns those that were pending.
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
