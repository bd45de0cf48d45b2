//! A foreign table in MySQL or MariaDB. The lock of the table is a user lock of the one session that claims.

mod catalogue;
mod columns;
#[cfg(test)]
mod lock_tests;
mod rights;
mod statements;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use posthaste::store::{Claim, OnDone};
use posthaste::{EventId, StoreError, Timestamp};
use posthaste_sql_writer::TableRef;
use sqlx::mysql::MySqlRow;
use sqlx::{ConnectOptions as _, Connection as _, MySql, MySqlConnection, Row as _};

use crate::OpenError;
use crate::foreign::Layout;
use crate::foreign::filter::BindValue;
use crate::foreign::foreign_table::{
    AttemptCount, BoundQuery, ByteBudget, Caller, ChooseKeys, FailedAttempt, ForeignTable, QueryRow, RowKey,
    RowsRead, SplitKeys,
};
use crate::foreign::lock_session::{LockSession, OpenSession};
use crate::foreign::resolved_layout::ResolvedLayout;
use crate::mysql::connection::{Connections, Login, SETTINGS, explain, server};
use crate::mysql::value::{MAX_KEYS, MySqlQuery, limit, placeholder_count};
use crate::row::RowReader;
use crate::sql::ready;
use crate::store::Connections as _;
use statements::ForeignStatements;

/// The names of locks are those of the whole server, and short.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('posthaste:', SHA1(CONCAT(DATABASE(), '.', ?))), 0)";

/// Whether this session has the lock.
const HELD: &str =
    "SELECT IS_USED_LOCK(CONCAT('posthaste:', SHA1(CONCAT(DATABASE(), '.', ?)))) <=> CONNECTION_ID()";

/// A session keeps its lock until the server ends it, by default after eight silent hours. A machine that vanished is
/// noticed within a minute; one that is there gives signs of life much more often.
const IDLE_SESSION_TIMEOUT: &str = "SET SESSION wait_timeout = 60";

/// A table of a layout, and the statements about it.
#[derive(Debug)]
pub(crate) struct MySqlForeignTable {
    session: LockSession<MySql>,
    connections: Connections,
    resolved: ResolvedLayout,
    statements: ForeignStatements,
    /// What the lock is called.
    lock: String,
}

impl MySqlForeignTable {
    pub(crate) async fn open(
        login: &Login,
        table_ref: &TableRef,
        layout: &Layout,
        read_only: bool,
    ) -> Result<Self, OpenError> {
        let options = login.0.clone().disable_statement_logging();
        let server = server(&login.0);
        let failed = |error| explain(error, &server);
        let mut connection = options.connect().await.map_err(failed)?;
        let name = layout.table_name().to_string();
        let Some(catalogue) = catalogue::look_up(&mut connection, &name).await.map_err(failed)? else {
            let table = layout.table_name().clone();
            return Err(OpenError::NoForeignTable { table, server });
        };
        let resolved = ResolvedLayout::new(layout, &columns::DIALECT, &catalogue)?;
        let statements = ForeignStatements::new(&resolved, &table_ref.text("`{table}`"));
        if !read_only {
            rights::check(&mut connection, &resolved, &statements, &server).await?;
        }
        let _ = connection.close().await;
        Ok(Self {
            connections: Connections::new(&options),
            session: LockSession::new(options, &[SETTINGS, IDLE_SESSION_TIMEOUT]),
            statements,
            resolved,
            lock: name,
        })
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        self.connections.failed(error)
    }

    /// Runs work in the session that has the lock, all of it or nothing; none if the lock is not ours.
    async fn as_leader<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<T, sqlx::Error>,
    ) -> Result<Option<T>, StoreError> {
        let mut session = self.session.take().await.map_err(|error| self.failed(error))?;
        if !session.open.leads {
            session.give_back();
            return Ok(None);
        }
        let answer = in_transaction(&mut session.open.connection, work).await;
        session.end(answer).map(Some).map_err(|error| self.failed(error))
    }

    async fn claim_in(
        &self,
        open: &mut OpenSession<MySql>,
        claim: &Claim<'_>,
        max_keys: usize,
        budget: ByteBudget,
        choose: &ChooseKeys<'_>,
    ) -> Result<Option<RowsRead>, sqlx::Error> {
        let (connection, newly) = (&mut open.connection, !open.leads);
        if newly {
            let locked = sqlx::query_scalar::<_, Option<i64>>(LOCK).bind(&self.lock);
            open.leads = locked.fetch_one(&mut *connection).await? == Some(1);
        }
        if !open.leads {
            return Ok(None);
        }
        let chosen = choose(newly, self.pending(connection, max_keys).await?);
        match chosen.is_empty() {
            true => Ok(Some(RowsRead::default())),
            false => self.read(connection, claim, budget, chosen).await.map(Some),
        }
    }

    /// A statement about some keys, at most [`MAX_KEYS`] of them; the last one fills the placeholders that are left.
    fn with_keys(&self, text: &str, keys: &[RowKey]) -> MySqlQuery {
        let count = placeholder_count(keys.len());
        let text: Arc<str> =
            text.replace("{keys}", &vec![self.statements.key.as_str(); count].join(", ")).into();
        let fill = keys.last().into_iter().cycle().take(count - keys.len());
        keys.iter().chain(fill).fold(ready::<MySql>(&text), |query, key| bind_key(query, key))
    }

    async fn pending(
        &self,
        connection: &mut MySqlConnection,
        max_keys: usize,
    ) -> Result<Vec<RowKey>, sqlx::Error> {
        let text: Arc<str> = format!("{} LIMIT {}", self.statements.pending, limit(max_keys)).into();
        let rows = ready::<MySql>(&text).persistent(false).fetch_all(connection).await?;
        rows.iter().map(key_of).collect()
    }

    /// The rows of these keys, in their order and as far as there is room; those that are gone are left out. One row
    /// is read after the other, so that it is not in memory twice.
    async fn read(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        budget: ByteBudget,
        keys: Vec<RowKey>,
    ) -> Result<RowsRead, sqlx::Error> {
        let mut split = budget.split(keys);
        while let Some(some) = split.next_step() {
            let sizes = self.sizes(connection, &some).await?;
            split.measured(some, &sizes);
        }
        let SplitKeys { fitting, bytes, left } = split.end();
        let mut found = HashMap::new();
        for some in fitting.chunks(MAX_KEYS) {
            let mut rows = self.with_keys(&self.statements.read, some).fetch(&mut *connection);
            while let Some(row) = rows.try_next().await? {
                let (now, id): (i64, &str) = (row.try_get("store_now")?, row.try_get("event_id")?);
                let (now, written): (_, Option<String>) =
                    (Timestamp::from_micros(now), row.try_get("written")?);
                found.insert((EventId::from(id), written), RowReader::new(&row).leased(claim, now));
            }
        }
        let rows = fitting.into_iter().filter_map(|key| {
            let row = found.remove(&(key.id.clone(), key.written.clone()))?;
            Some((key, row))
        });
        Ok(RowsRead { rows: rows.collect(), bytes, left })
    }

    /// How large the rows of these keys are that are still there.
    async fn sizes(
        &self,
        connection: &mut MySqlConnection,
        keys: &[RowKey],
    ) -> Result<HashMap<EventId, usize>, sqlx::Error> {
        let rows = self.with_keys(&self.statements.sizes, keys).fetch_all(connection).await?;
        rows.iter().map(size).collect()
    }

    /// Ends those rows that are pending, and returns which were: an UPDATE only counts them. A row that was written at
    /// another time has the key of one that is gone.
    async fn end(
        &self,
        connection: &mut MySqlConnection,
        text: &str,
        keys: &[RowKey],
    ) -> Result<HashSet<EventId>, sqlx::Error> {
        let rows = self.with_keys(&self.statements.still_pending, keys).fetch_all(&mut *connection).await?;
        let mut pending = rows.iter().map(key_of).collect::<Result<Vec<RowKey>, _>>()?;
        let known: HashSet<&RowKey> = keys.iter().collect();
        pending.retain(|key| known.contains(key));
        if !pending.is_empty() {
            self.with_keys(text, &pending).execute(connection).await?;
        }
        Ok(pending.into_iter().map(|key| key.id).collect())
    }

    async fn count_one(
        &self,
        connection: &mut MySqlConnection,
        failure: &FailedAttempt,
    ) -> Result<Option<AttemptCount>, sqlx::Error> {
        let most = i64::from(failure.max_attempts);
        let query =
            ready::<MySql>(&self.one_key(&self.statements.count)).bind(most).bind(failure.error.clone());
        if bind_row(query, &failure.key).execute(&mut *connection).await?.rows_affected() == 0 {
            return Ok(None);
        }
        let query = bind_key(ready::<MySql>(&self.one_key(&self.statements.counted)), &failure.key);
        let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
        let (attempts, is_dead): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let attempts = u32::try_from(attempts.max(0)).unwrap_or(u32::MAX);
        Ok(Some(AttemptCount { attempts, is_dead: is_dead != 0 }))
    }

    fn one_key(&self, text: &str) -> Arc<str> {
        text.replace("{keys}", &self.statements.key).into()
    }
}

#[async_trait]
impl ForeignTable for MySqlForeignTable {
    async fn claim(
        &self,
        claim: &Claim<'_>,
        max_keys: usize,
        budget: ByteBudget,
        choose: &ChooseKeys<'_>,
    ) -> Result<Option<RowsRead>, StoreError> {
        let mut session = self.session.take().await.map_err(|error| self.failed(error))?;
        let rows = self.claim_in(&mut session.open, claim, max_keys, budget, choose).await;
        session.end(rows).map_err(|error| self.failed(error))
    }

    async fn leads(&self) -> Result<bool, StoreError> {
        let held = async |connection: &mut MySqlConnection| {
            sqlx::query_scalar::<_, i64>(HELD).bind(&self.lock).fetch_one(connection).await
        };
        Ok(self.as_leader(held).await? == Some(1))
    }

    async fn settle_delivered(
        &self,
        keys: &[RowKey],
        on_done: OnDone,
    ) -> Result<HashSet<EventId>, StoreError> {
        let text = match on_done {
            OnDone::Keep => &self.statements.keep,
            OnDone::Delete => &self.statements.delete,
            OnDone::Archive => &self.statements.archive,
        };
        let mut done = HashSet::new();
        for some in keys.chunks(MAX_KEYS) {
            let end = async |connection: &mut MySqlConnection| self.end(connection, text, some).await;
            done.extend(self.connections.engine_in_transaction(end).await?);
        }
        Ok(done)
    }

    async fn write_nothing(&self) -> Result<(), StoreError> {
        let text = &self.statements.nothing;
        let write = async |connection: &mut MySqlConnection| ready::<MySql>(text).execute(connection).await;
        self.connections.engine(write).await?;
        Ok(())
    }

    async fn count_failures(
        &self,
        failures: &[FailedAttempt],
    ) -> Result<Option<HashMap<EventId, AttemptCount>>, StoreError> {
        self.as_leader(async |connection| {
            let mut all = HashMap::new();
            for failure in failures {
                let counted = self.count_one(connection, failure).await?;
                all.extend(counted.map(|counted| (failure.key.id.clone(), counted)));
            }
            Ok(all)
        })
        .await
    }

    async fn give_up(&self, rows: &[(RowKey, String)]) -> Result<Option<HashSet<EventId>>, StoreError> {
        self.as_leader(async |connection| {
            let mut all = HashSet::new();
            let has_error = self.resolved.column(super::Field::Error).is_some();
            for (key, reason) in rows {
                let query = ready::<MySql>(&self.one_key(&self.statements.give_up));
                let query = if has_error { query.bind(reason.clone()) } else { query };
                if bind_row(query, key).execute(&mut *connection).await?.rows_affected() > 0 {
                    all.insert(key.id.clone());
                }
            }
            Ok(all)
        })
        .await
    }

    async fn query(&self, caller: Caller, query: BoundQuery) -> Result<Vec<Box<QueryRow>>, StoreError> {
        let read = async |connection: &mut MySqlConnection| bound(&query).fetch_all(connection).await;
        let rows = match caller {
            Caller::Engine => self.connections.engine(read).await?,
            Caller::Operator => self.connections.viewer(read).await?,
        };
        Ok(rows.into_iter().map(|row| Box::new(row) as Box<QueryRow>).collect())
    }

    async fn change(&self, caller: Caller, query: BoundQuery) -> Result<u64, StoreError> {
        let write = async |connection: &mut MySqlConnection| bound(&query).execute(connection).await;
        let changed = match caller {
            Caller::Engine => self.connections.engine(write).await?,
            Caller::Operator => self.connections.operator(write).await?,
        };
        Ok(changed.rows_affected())
    }

    fn resolved(&self) -> &ResolvedLayout {
        &self.resolved
    }

    fn name(&self) -> &str {
        &self.statements.table
    }

    fn bare_name(&self) -> BindValue {
        BindValue::Text(self.lock.clone())
    }

    async fn close(&self) {
        self.session.close().await;
        self.connections.close().await;
    }
}

/// Runs work in a transaction. A deadlock has ended it already, and everything else ends it here.
async fn in_transaction<T>(
    connection: &mut MySqlConnection,
    work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    let mut tx = connection.begin().await?;
    match work(&mut tx).await {
        Ok(answer) => {
            tx.commit().await?;
            Ok(answer)
        }
        Err(error) => {
            tx.rollback().await?;
            Err(error)
        }
    }
}

fn bind_key(query: MySqlQuery, key: &RowKey) -> MySqlQuery {
    key.parts.iter().cloned().fold(query, sqlx::query::Query::bind)
}

/// The key, and when its row was written.
fn bind_row(query: MySqlQuery, key: &RowKey) -> MySqlQuery {
    bind_key(query, key).bind(key.written.clone())
}

/// The id first, then the columns of the key, then when the row was written.
fn key_of(row: &MySqlRow) -> Result<RowKey, sqlx::Error> {
    let (id, last): (String, usize) = (row.try_get(0)?, row.len() - 1);
    let parts = (1..last).map(|column| row.try_get(column)).collect::<Result<_, _>>()?;
    Ok(RowKey { id: id.into(), parts, written: row.try_get(last)? })
}

fn size(row: &MySqlRow) -> Result<(EventId, usize), sqlx::Error> {
    let (id, size): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok((EventId::from(id), usize::try_from(size).unwrap_or(0)))
}

/// A query with its values. It is planned anew each time: nobody asks the same twice.
fn bound(query: &BoundQuery) -> MySqlQuery {
    let text: Arc<str> = query.text.as_str().into();
    query.values.iter().fold(ready::<MySql>(&text).persistent(false), |query, value| match value {
        BindValue::Text(text) => query.bind(text.clone()),
        BindValue::Micros(micros) => query.bind(*micros),
    })
}
