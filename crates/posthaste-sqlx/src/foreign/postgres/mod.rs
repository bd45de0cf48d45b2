//! A foreign table in PostgreSQL. The lock of the table is an advisory lock of the one session that claims.

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
use posthaste::{EventId, StoreError};
use posthaste_sql_writer::TableRef;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions as _, PgConnection, Postgres, Row as _};

use crate::OpenError;
use crate::foreign::Layout;
use crate::foreign::filter::BindValue;
use crate::foreign::foreign_table::{
    AttemptCount, BoundQuery, ByteBudget, Caller, ChooseKeys, FailedAttempt, ForeignTable, QueryRow, RowKey,
    RowsRead, SplitKeys,
};
use crate::foreign::lock_session::{LockSession, OpenSession};
use crate::foreign::resolved_layout::ResolvedLayout;
use crate::postgres::connection::{ConnectionPath, Login, explain, named, server};
use crate::postgres::diagnose::is_pooled;
use crate::postgres::value::{self, Time};
use crate::row::RowReader;
use crate::sql::ready;
use crate::store_pool::StorePool;
use statements::ForeignStatements;

const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";

/// Whether this session has the lock, which the server has in two halves.
const HELD: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
  AND pid = pg_backend_pid() AND (classid::int8 << 32 | objid::int8) = hashtextextended($1, 0))";

const SETTINGS: [(&str, &str); 2] = [("jit", "off"), ("statement_timeout", "30s")];

/// An outcome that a crash of the server takes back means one more delivery, so nobody waits for its disk.
const ENGINE_SETTINGS: [(&str, &str); 1] = [("synchronous_commit", "off")];

/// A session keeps its lock for as long as the server believes that somebody is there. By default it asks after two
/// hours; here a machine that vanished is noticed within half a minute. Where there is no TCP these are ignored.
const KEEPALIVE_SETTINGS: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "25s"),
];

/// Whatever stands between, a load balancer for example, may answer for a machine that is gone. It does not give its
/// signs of life. PostgreSQL 13 has no such setting.
const IDLE_SESSION_TIMEOUT: &str = "SELECT set_config('idle_session_timeout', '60s', false)
  WHERE current_setting('server_version_num')::int4 >= 140000";

/// A table of a layout, and the statements about it.
#[derive(Debug)]
pub(crate) struct PgForeignTable {
    session: LockSession<Postgres>,
    /// One to settle, one for the rest.
    engine: StorePool<Postgres>,
    /// With durable commits, for operators. Changes do not wait for questions.
    viewer: StorePool<Postgres>,
    operator: StorePool<Postgres>,
    resolved: ResolvedLayout,
    statements: ForeignStatements,
    /// What the lock is called.
    lock: String,
    server: Arc<str>,
}

impl PgForeignTable {
    pub(crate) async fn open(
        login: &Login,
        table_ref: &TableRef,
        layout: &Layout,
        read_only: bool,
    ) -> Result<Self, OpenError> {
        let options = named(&login.0, ConnectionPath::Direct, "posthaste layout").options(SETTINGS);
        let server: Arc<str> = server(&login.0).into();
        let table = table_ref.text(r#""{table}""#);
        let failed = |error| explain(error, &server);
        let mut connection = options.connect().await.map_err(failed)?;
        let Some(catalogue) = catalogue::look_up(&mut connection, &table).await.map_err(failed)? else {
            let table = layout.table_name().clone();
            return Err(OpenError::NoForeignTable { table, server: server.to_string() });
        };
        let resolved = ResolvedLayout::new(layout, &columns::DIALECT, &catalogue)?;
        if !read_only {
            rights::check(&mut connection, &resolved, &table, &server).await?;
        }
        let mut other = options.connect().await.map_err(failed)?;
        if is_pooled(&mut connection, &mut other).await.map_err(failed)? {
            let why = "a pooler in transaction mode stands before the server, and a lock needs a session of its own: \
                       name the server itself in the URL"
                .to_owned();
            return Err(OpenError::Layout { table: layout.table_name().clone(), why });
        }
        for connection in [connection, other] {
            let _ = sqlx::Connection::close(connection).await;
        }
        Ok(Self {
            session: LockSession::new(
                options.clone().options(ENGINE_SETTINGS).options(KEEPALIVE_SETTINGS),
                &[IDLE_SESSION_TIMEOUT],
            ),
            engine: StorePool::new(options.clone().options(ENGINE_SETTINGS), 2),
            viewer: StorePool::new(options.clone(), 2),
            operator: StorePool::new(options, 2),
            statements: ForeignStatements::new(&resolved, &table),
            resolved,
            lock: format!("posthaste {table}"),
            server,
        })
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        match explain(error, &self.server) {
            OpenError::Database(error) => StoreError::backend("PostgreSQL", error),
            known => StoreError::backend("PostgreSQL", known),
        }
    }

    /// Runs work in the session that has the lock; none if it is not ours.
    async fn as_leader<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<Option<T>, StoreError> {
        let mut session = self.session.take().await.map_err(|error| self.failed(error))?;
        if !session.open.leads {
            session.give_back();
            return Ok(None);
        }
        let answer = work(&mut session.open.connection).await;
        session.end(answer).map(Some).map_err(|error| self.failed(error))
    }

    /// Runs work of the engine that needs no lock.
    async fn engine<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        self.engine.with(work).await.map_err(|error| self.failed(error))
    }

    async fn claim_in(
        &self,
        open: &mut OpenSession<Postgres>,
        claim: &Claim<'_>,
        max_keys: usize,
        budget: ByteBudget,
        choose: &ChooseKeys<'_>,
    ) -> Result<Option<RowsRead>, sqlx::Error> {
        let (connection, newly) = (&mut open.connection, !open.leads);
        if newly {
            open.leads = sqlx::query_scalar(LOCK).bind(&self.lock).fetch_one(&mut *connection).await?;
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

    async fn pending(
        &self,
        connection: &mut PgConnection,
        max_keys: usize,
    ) -> Result<Vec<RowKey>, sqlx::Error> {
        let text: Arc<str> = format!("{} LIMIT {}", self.statements.pending, value::limit(max_keys)).into();
        // Planned anew each time: a plan from when the table was empty may read all of it.
        let rows = ready::<Postgres>(&text).persistent(false).fetch_all(connection).await?;
        rows.iter().map(key_of).collect()
    }

    /// The rows of these keys, in their order and as far as there is room; those that are gone are left out. One row
    /// is read after the other, so that it is not in memory twice.
    async fn read(
        &self,
        connection: &mut PgConnection,
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
        let mut rows = self.with_keys(&self.statements.read, &fitting).fetch(connection);
        while let Some(row) = rows.try_next().await? {
            let (now, id): (Time, &str) = (row.try_get("store_now")?, row.try_get("event_id")?);
            found.insert(EventId::from(id), RowReader::new(&row).leased(claim, now.0));
        }
        let rows = fitting.into_iter().filter_map(|key| Some((key.clone(), found.remove(&key.id)?)));
        Ok(RowsRead { rows: rows.collect(), bytes, left })
    }

    /// How large the rows of these keys are that are still there.
    async fn sizes(
        &self,
        connection: &mut PgConnection,
        keys: &[RowKey],
    ) -> Result<HashMap<EventId, usize>, sqlx::Error> {
        let rows = self.with_keys(&self.statements.sizes, keys).fetch_all(connection).await?;
        rows.iter().map(size).collect()
    }

    /// A statement about these keys: a list for each column, and one for when their rows were written.
    fn with_keys(&self, text: &Arc<str>, keys: &[RowKey]) -> Query<'static, Postgres, PgArguments> {
        // Planned anew each time, as the look at the keys: a few rows are found by their index in a large table.
        let query = ready::<Postgres>(text).persistent(false);
        let query = (0..self.statements.key_columns).fold(query, |query, column| {
            let parts = keys.iter().map(|key| key.parts.get(column).cloned().unwrap_or_default());
            query.bind(parts.collect::<Vec<String>>())
        });
        query.bind(keys.iter().map(|key| key.written.clone()).collect::<Vec<Option<String>>>())
    }
}

#[async_trait]
impl ForeignTable for PgForeignTable {
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
        let held = async |connection: &mut PgConnection| {
            sqlx::query_scalar(HELD).bind(&self.lock).fetch_one(connection).await
        };
        Ok(self.as_leader(held).await?.unwrap_or(false))
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
        let rows = self.engine(async |connection| self.with_keys(text, keys).fetch_all(connection).await);
        ids(&rows.await?).map_err(|error| self.failed(error))
    }

    async fn write_nothing(&self) -> Result<(), StoreError> {
        let text = &self.statements.nothing;
        self.engine(async |connection| ready::<Postgres>(text).execute(connection).await).await?;
        Ok(())
    }

    async fn count_failures(
        &self,
        failures: &[FailedAttempt],
    ) -> Result<Option<HashMap<EventId, AttemptCount>>, StoreError> {
        let keys: Vec<RowKey> = failures.iter().map(|failure| failure.key.clone()).collect();
        let errors: Vec<String> =
            failures.iter().map(|failure| value::text(&failure.error).into_owned()).collect();
        let most: Vec<i32> =
            failures.iter().map(|failure| i32::try_from(failure.max_attempts).unwrap_or(i32::MAX)).collect();
        self.as_leader(async |connection| {
            let query = self.with_keys(&self.statements.count, &keys).bind(errors).bind(most);
            query.fetch_all(connection).await?.iter().map(counted).collect()
        })
        .await
    }

    async fn give_up(&self, rows: &[(RowKey, String)]) -> Result<Option<HashSet<EventId>>, StoreError> {
        let keys: Vec<RowKey> = rows.iter().map(|(key, _)| key.clone()).collect();
        let reasons: Vec<String> = rows.iter().map(|(_, reason)| value::text(reason).into_owned()).collect();
        self.as_leader(async |connection| {
            ids(&self.with_keys(&self.statements.give_up, &keys).bind(reasons).fetch_all(connection).await?)
        })
        .await
    }

    async fn query(&self, caller: Caller, query: BoundQuery) -> Result<Vec<Box<QueryRow>>, StoreError> {
        let pool = match caller {
            Caller::Engine => &self.engine,
            Caller::Operator => &self.viewer,
        };
        let rows = pool.with(async |connection| bound(query).fetch_all(connection).await);
        let rows = rows.await.map_err(|error| self.failed(error))?;
        Ok(rows.into_iter().map(|row| Box::new(row) as Box<QueryRow>).collect())
    }

    async fn change(&self, caller: Caller, query: BoundQuery) -> Result<u64, StoreError> {
        let pool = match caller {
            Caller::Engine => &self.engine,
            Caller::Operator => &self.operator,
        };
        let changed = pool.with(async |connection| bound(query).execute(connection).await);
        Ok(changed.await.map_err(|error| self.failed(error))?.rows_affected())
    }

    fn resolved(&self) -> &ResolvedLayout {
        &self.resolved
    }

    fn name(&self) -> &str {
        &self.statements.table
    }

    fn bare_name(&self) -> BindValue {
        BindValue::Text(self.statements.table.clone())
    }

    async fn close(&self) {
        self.session.close().await;
        self.engine.close().await;
        self.viewer.close().await;
        self.operator.close().await;
    }
}

/// The id first, then the columns of the key, then when the row was written.
fn key_of(row: &PgRow) -> Result<RowKey, sqlx::Error> {
    let (id, last): (String, usize) = (row.try_get(0)?, row.len() - 1);
    let parts = (1..last).map(|column| row.try_get(column)).collect::<Result<_, _>>()?;
    Ok(RowKey { id: id.into(), parts, written: row.try_get(last)? })
}

fn size(row: &PgRow) -> Result<(EventId, usize), sqlx::Error> {
    let (id, size): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok((EventId::from(id), usize::try_from(size).unwrap_or(0)))
}

fn ids(rows: &[PgRow]) -> Result<HashSet<EventId>, sqlx::Error> {
    rows.iter().map(|row| Ok(EventId::from(row.try_get::<String, _>(0)?))).collect()
}

fn counted(row: &PgRow) -> Result<(EventId, AttemptCount), sqlx::Error> {
    let (id, attempts): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
    let attempts = u32::try_from(attempts.max(0)).unwrap_or(u32::MAX);
    Ok((id.into(), AttemptCount { attempts, is_dead: row.try_get(2)? }))
}

/// A query with its values. It is planned anew each time: nobody asks the same twice.
fn bound(query: BoundQuery) -> Query<'static, Postgres, PgArguments> {
    let text: Arc<str> = query.text.into();
    query.values.into_iter().fold(ready::<Postgres>(&text).persistent(false), |query, value| match value {
        BindValue::Text(text) => query.bind(value::text(&text).into_owned()),
        BindValue::Micros(micros) => query.bind(micros),
    })
}
