//! A writer context on one connection, with its prepared statements.

use std::sync::Arc;

use posthaste::StoreError;
use posthaste_sql_writer::{Postgres, WriterContext, postgres};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement, Transaction};

use crate::connection::StatementCache;

/// A writer context, and the statement cache of the connection. The cache is disabled if the statements must not be
/// kept prepared.
#[derive(Clone, Debug)]
pub(crate) struct WriterSession {
    pub(crate) context: WriterContext<Postgres>,
    cache: StatementCache,
}

/// A statement that can be sent without preparing it first.
pub(crate) enum ReadyStatement {
    Prepared(Statement),
    Unprepared(Arc<str>),
}

impl WriterSession {
    pub(crate) fn new(context: &WriterContext<Postgres>, cache: StatementCache) -> Self {
        let cache = if context.statements().cacheable { cache } else { StatementCache::Disabled };
        Self { context: context.clone(), cache }
    }

    pub(crate) fn statements(&self) -> &postgres::Statements {
        self.context.statements()
    }

    /// Explains the error of an INSERT: in another database than that of the outbox the INSERT itself fails.
    pub(crate) fn refused(&self, error: Error) -> StoreError {
        let message = error.as_db_error().map(tokio_postgres::error::DbError::message);
        message.and_then(|message| self.statements().other_database(message)).unwrap_or_else(|| failed(error))
    }

    /// Prepares a statement if the connection has a cache. Costs a round trip only on a connection that has not
    /// prepared it before.
    pub(crate) async fn ready(
        &self,
        client: &Client,
        text: &Arc<str>,
        types: &[Type],
    ) -> Result<ReadyStatement, Error> {
        let prepared = self.cache.prepare(client, text, types).await?;
        Ok(prepared.map_or_else(|| ReadyStatement::Unprepared(Arc::clone(text)), ReadyStatement::Prepared))
    }
}

impl ReadyStatement {
    /// Sends the statement when it is polled for the first time. The types are sent with it, so that the driver need
    /// not query them from the server.
    pub(crate) async fn rows(
        &self,
        tx: &Transaction<'_>,
        values: &[&(dyn ToSql + Sync)],
        types: &[Type],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Prepared(statement) => tx.query(statement, values).await,
            Self::Unprepared(text) => {
                let values: Vec<_> = values.iter().copied().zip(types.iter().cloned()).collect();
                tx.query_typed(text, &values).await
            }
        }
    }
}

/// The connection belongs to the service, so its errors are passed on unchanged.
pub(crate) fn failed(error: Error) -> StoreError {
    StoreError::backend("PostgreSQL", error)
}
