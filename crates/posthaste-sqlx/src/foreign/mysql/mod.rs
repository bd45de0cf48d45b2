//! Foreign tables in MySQL and MariaDB. The table lock is a user lock (GET_LOCK) of the session that claims.

mod dialect;
#[cfg(test)]
mod lock_tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{EventId, StoreError};
use sqlx::{ConnectOptions as _, MySql, MySqlConnection};

use crate::OpenError;
use crate::foreign::foreign_table::key_of;
use crate::foreign::resolved_layout::{Dialect, ResolvedLayout};
use crate::foreign::row_key::{AttemptCount, FailedAttempt, RowKey};
use crate::foreign::server::{Caller, Server};
use crate::foreign::session::{BindValue, BoundQuery, QueryRow, Session, SessionDialect};
use crate::foreign::{Field, State};
use crate::mysql::connection::{Connections, Login, SETTINGS, explain, server};
use crate::mysql::value::MAX_KEYS;
use crate::queries::SqlQuery;
use crate::sql::ready;
use crate::store::Connections as _;
use dialect::{end, has_key, parts};

/// A session keeps its lock until the server ends it, by default after eight hours of silence. With this setting the
/// server notices a vanished machine within a minute. A connected one sends pings much more often.
const IDLE_SESSION_TIMEOUT: &str = "SET SESSION wait_timeout = 60";

/// A MySQL or MariaDB server.
#[derive(Debug)]
pub(crate) struct MySqlServer {
    /// The login of the session that holds the lock.
    login: Login,
    connections: Connections,
    name: String,
}

impl MySqlServer {
    pub(crate) fn new(login: &Login) -> Self {
        let options = login.0.clone().disable_statement_logging();
        Self { connections: Connections::new(&options), login: Login::new(options), name: server(&login.0) }
    }
}

#[async_trait]
impl Server for MySqlServer {
    fn dialect(&self) -> &'static Dialect {
        &dialect::DIALECT
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn explain(&self, error: sqlx::Error) -> OpenError {
        explain(error, &self.name)
    }

    async fn connect(&self) -> Result<Box<dyn Session>, sqlx::Error> {
        let mut connection = self.login.0.connect().await?;
        for setting in [SETTINGS, IDLE_SESSION_TIMEOUT] {
            connection.execute_raw(setting).await?;
        }
        Ok(Box::new(connection))
    }

    async fn query(&self, caller: Caller, query: &BoundQuery) -> Result<Vec<Box<QueryRow>>, StoreError> {
        let read = async |connection: &mut MySqlConnection| MySql::bound(query).fetch_all(connection).await;
        let rows = match caller {
            Caller::Engine => self.connections.engine(read).await?,
            Caller::Operator => self.connections.viewer(read).await?,
        };
        Ok(rows.into_iter().map(|row| Box::new(row) as Box<QueryRow>).collect())
    }

    async fn change(&self, caller: Caller, query: &BoundQuery) -> Result<u64, StoreError> {
        let write = async |connection: &mut MySqlConnection| MySql::bound(query).execute(connection).await;
        let changed = match caller {
            Caller::Engine => self.connections.engine(write).await?,
            Caller::Operator => self.connections.operator(write).await?,
        };
        Ok(changed.rows_affected())
    }

    async fn settle_delivered(
        &self,
        resolved: &ResolvedLayout,
        set: Option<&str>,
        keys: &[RowKey],
    ) -> Result<HashSet<EventId>, StoreError> {
        let mut done = HashSet::new();
        for some in keys.chunks(MAX_KEYS) {
            let end =
                async |connection: &mut MySqlConnection| end_rows(connection, resolved, set, some).await;
            done.extend(self.connections.engine_in_transaction(end).await?);
        }
        Ok(done)
    }

    async fn count_failures(
        &self,
        session: &mut dyn Session,
        resolved: &ResolvedLayout,
        failures: &[FailedAttempt],
    ) -> Result<HashMap<EventId, AttemptCount>, sqlx::Error> {
        session.execute_raw("START TRANSACTION").await?;
        let counted = count_each(session, resolved, failures).await;
        end_transaction(session, counted).await
    }

    async fn give_up(
        &self,
        session: &mut dyn Session,
        resolved: &ResolvedLayout,
        rows: &[(RowKey, String)],
    ) -> Result<HashSet<EventId>, sqlx::Error> {
        session.execute_raw("START TRANSACTION").await?;
        let given_up = give_up_each(session, resolved, rows).await;
        end_transaction(session, given_up).await
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}

/// Ends those rows that are pending, and returns them. An UPDATE only returns their number, so they are selected FOR
/// UPDATE first. A row that was written at another time has the key of an older row and is left out.
async fn end_rows(
    session: &mut dyn Session,
    resolved: &ResolvedLayout,
    set: Option<&str>,
    keys: &[RowKey],
) -> Result<HashSet<EventId>, sqlx::Error> {
    let mut still_pending = (resolved.dialect.pending)(resolved, &resolved.row_key(), keys);
    still_pending.text.push_str(" FOR UPDATE");
    let mut pending: Vec<RowKey> = session.rows(&still_pending, |row| key_of(row, resolved)).await?;
    let known: HashSet<&RowKey> = keys.iter().collect();
    pending.retain(|key| known.contains(key));
    if !pending.is_empty() {
        session.execute(&end(resolved, set, &pending)).await?;
    }
    Ok(pending.into_iter().map(|key| key.id).collect())
}

/// A deadlock has already rolled back the transaction; any other error rolls it back here.
async fn end_transaction<T>(
    session: &mut dyn Session,
    result: Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    session.execute_raw(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    result
}

async fn count_each(
    session: &mut dyn Session,
    resolved: &ResolvedLayout,
    failures: &[FailedAttempt],
) -> Result<HashMap<EventId, AttemptCount>, sqlx::Error> {
    let set = resolved.set_counted("?", "?");
    let mut all = HashMap::new();
    for FailedAttempt { key, error, max_attempts } in failures {
        let mut values = vec![BindValue::Int((*max_attempts).into())];
        values.extend(bound_error(resolved, error));
        if change_one(session, resolved, &set, values, key).await? {
            all.extend(counted(session, resolved, key).await?.map(|counted| (key.id.clone(), counted)));
        }
    }
    Ok(all)
}

async fn give_up_each(
    session: &mut dyn Session,
    resolved: &ResolvedLayout,
    rows: &[(RowKey, String)],
) -> Result<HashSet<EventId>, sqlx::Error> {
    let set = resolved.set(State::Failed, "?");
    let mut all = HashSet::new();
    for (key, reason) in rows {
        let values = bound_error(resolved, reason).into_iter().collect();
        if change_one(session, resolved, &set, values, key).await? {
            all.insert(key.id.clone());
        }
    }
    Ok(all)
}

/// The error as a value to bind, if the table has a column for it.
fn bound_error(resolved: &ResolvedLayout, error: &str) -> Option<BindValue> {
    resolved.column(Field::Error).map(|_| error.into())
}

/// Sets columns of the row with this key if it is pending. Returns whether it was.
async fn change_one(
    session: &mut dyn Session,
    resolved: &ResolvedLayout,
    set: &str,
    mut values: Vec<BindValue>,
    key: &RowKey,
) -> Result<bool, sqlx::Error> {
    let (table, pending, written) = (&resolved.table, resolved.is(State::Pending), resolved.written());
    let has_key = has_key(resolved);
    let text = format!("UPDATE {table} AS t SET {set} WHERE {has_key} AND {written} <=> ? AND {pending}");
    values.extend(parts(key).chain([BindValue::Text(key.written.clone())]));
    Ok(session.execute(&BoundQuery::new(text, values).repeated()).await? > 0)
}

/// Reads the attempts of a row after they were counted.
async fn counted(
    session: &mut dyn Session,
    resolved: &ResolvedLayout,
    key: &RowKey,
) -> Result<Option<AttemptCount>, sqlx::Error> {
    let attempts = resolved.column(Field::Attempts).map(|(column, _)| column).unwrap_or_default();
    let text = format!(
        "SELECT CAST(COALESCE({attempts}, 0) AS SIGNED) AS attempts, CAST({} AS SIGNED) AS is_dead FROM {} AS t WHERE {}",
        resolved.is(State::Failed),
        resolved.table,
        has_key(resolved)
    );
    let query = BoundQuery::new(text, parts(key).collect()).repeated();
    let counts: Vec<AttemptCount> = session.rows(&query, AttemptCount::of).await?;
    Ok(counts.first().copied())
}

impl SessionDialect for MySql {
    /// A query with its values.
    fn bound(query: &BoundQuery) -> SqlQuery<Self> {
        let text: Arc<str> = query.text.as_str().into();
        let ready = ready::<MySql>(&text).persistent(query.is_repeated);
        query.values.iter().fold(ready, |query, value| match value {
            BindValue::Text(text) => query.bind(text.clone()),
            BindValue::Int(int) => query.bind(*int),
            #[cfg(feature = "postgres")]
            BindValue::Texts(_) | BindValue::Ints(_) => unreachable!("statements of MySQL have no lists"),
        })
    }
}
