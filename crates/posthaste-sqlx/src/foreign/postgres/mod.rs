//! Foreign tables in PostgreSQL. The table lock is an advisory lock of the session that claims.

mod dialect;
#[cfg(test)]
mod lock_tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{EventId, StoreError};
use sqlx::{ConnectOptions as _, Connection, Postgres};

use crate::foreign::resolved_layout::{Dialect, ResolvedLayout};
use crate::foreign::row_key::{AttemptCount, FailedAttempt, RowKey};
use crate::foreign::server::{Caller, Server};
use crate::foreign::session::{BindValue, BoundQuery, QueryRow, Session, SessionDialect, id};
use crate::foreign::{Field, State};
use crate::postgres::connection::{ConnectionPath, Login, explain, named, server};
use crate::postgres::diagnose::is_pooled;
use crate::postgres::value;
use crate::queries::SqlQuery;
use crate::sql::ready;
use crate::store_pool::StorePool;
use crate::{OpenError, TableName};
#[cfg(test)]
pub(crate) use dialect::DIALECT;
use dialect::{end, with_keys};

const SETTINGS: [(&str, &str); 2] = [("jit", "off"), ("statement_timeout", "30s")];

/// If a crash of the server loses an outcome, the event is delivered once more. So a settlement does not wait for the
/// disk.
const ENGINE_SETTINGS: [(&str, &str); 1] = [("synchronous_commit", "off")];

/// A session keeps its lock for as long as the server believes that the client exists. By default it checks after two
/// hours; with these settings a vanished machine is noticed within half a minute. A Unix socket ignores them.
const KEEPALIVE_SETTINGS: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "25s"),
];

/// A load balancer in between may acknowledge TCP keep-alives for a machine that is gone. It sends no pings, so this
/// timeout ends the session. PostgreSQL 13 has no such setting.
const IDLE_SESSION_TIMEOUT: &str = "SELECT set_config('idle_session_timeout', '60s', false)
  WHERE current_setting('server_version_num')::int4 >= 140000";

/// A PostgreSQL server.
#[derive(Debug)]
pub(crate) struct PgServer {
    /// The login of the session that holds the lock.
    login: Login,
    /// Two connections: one to settle, one for everything else.
    engine: StorePool<Postgres>,
    /// With durable commits, for operators. Changes have their own connections and do not wait for queries.
    viewer: StorePool<Postgres>,
    operator: StorePool<Postgres>,
    name: String,
}

impl PgServer {
    pub(crate) fn new(login: &Login) -> Self {
        let options = named(&login.0, ConnectionPath::Direct, "posthaste layout").options(SETTINGS);
        let engine = options.clone().options(ENGINE_SETTINGS);
        Self {
            login: Login::new(engine.clone().options(KEEPALIVE_SETTINGS)),
            engine: StorePool::new(engine, 2),
            viewer: StorePool::new(options.clone(), 2),
            operator: StorePool::new(options, 2),
            name: server(&login.0),
        }
    }
}

#[async_trait]
impl Server for PgServer {
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
        connection.execute_raw(IDLE_SESSION_TIMEOUT).await?;
        Ok(Box::new(connection))
    }

    async fn expect_sessions(&self, table: &TableName) -> Result<(), OpenError> {
        let failed = |error| self.explain(error);
        let mut one = self.login.0.connect().await.map_err(failed)?;
        let mut other = self.login.0.connect().await.map_err(failed)?;
        if is_pooled(&mut one, &mut other).await.map_err(failed)? {
            let why = "a pooler in transaction mode is in front of the server, and the table lock needs a \
             session of its own: connect directly to the server"
                .to_owned();
            return Err(OpenError::Layout { table: table.clone(), why });
        }
        for connection in [one, other] {
            let _ = Connection::close(connection).await;
        }
        Ok(())
    }

    async fn query(&self, caller: Caller, query: &BoundQuery) -> Result<Vec<Box<QueryRow>>, StoreError> {
        let pool = match caller {
            Caller::Engine => &self.engine,
            Caller::Operator => &self.viewer,
        };
        let rows = pool.with(async |connection| Postgres::bound(query).fetch_all(connection).await);
        let rows = rows.await.map_err(|error| self.failed(error))?;
        Ok(rows.into_iter().map(|row| Box::new(row) as Box<QueryRow>).collect())
    }

    async fn change(&self, caller: Caller, query: &BoundQuery) -> Result<u64, StoreError> {
        let pool = match caller {
            Caller::Engine => &self.engine,
            Caller::Operator => &self.operator,
        };
        let changed = pool.with(async |connection| Postgres::bound(query).execute(connection).await);
        Ok(changed.await.map_err(|error| self.failed(error))?.rows_affected())
    }

    async fn settle_delivered(
        &self,
        resolved: &ResolvedLayout,
        set: Option<&str>,
        keys: &[RowKey],
    ) -> Result<HashSet<EventId>, StoreError> {
        let query = with_keys(resolved, end(resolved, set, &[]), keys, Vec::new());
        let rows = self.query(Caller::Engine, &query).await?;
        rows.iter().map(|row| id(&**row)).collect::<Result<_, _>>().map_err(|error| self.failed(error))
    }

    async fn count_failures(
        &self,
        session: &mut dyn Session,
        resolved: &ResolvedLayout,
        failures: &[FailedAttempt],
    ) -> Result<HashMap<EventId, AttemptCount>, sqlx::Error> {
        let attempts = resolved.column(Field::Attempts).map(|(column, _)| column).unwrap_or_default();
        let set = resolved.set_counted("k.most", "k.error");
        let text = format!(
            "{}, {attempts}::int8 AS attempts, ({})::int::int8 AS is_dead",
            end(resolved, Some(&set), &[("error", "text"), ("most", "int8")]),
            resolved.is(State::Failed)
        );
        let keys: Vec<RowKey> = failures.iter().map(|failure| failure.key.clone()).collect();
        let errors = failures.iter().map(|failure| Some(failure.error.clone())).collect();
        let most = failures.iter().map(|failure| failure.max_attempts.into()).collect();
        let query = with_keys(resolved, text, &keys, vec![BindValue::Texts(errors), BindValue::Ints(most)]);
        session.rows(&query, |row| Ok((id(row)?, AttemptCount::of(row)?))).await
    }

    async fn give_up(
        &self,
        session: &mut dyn Session,
        resolved: &ResolvedLayout,
        rows: &[(RowKey, String)],
    ) -> Result<HashSet<EventId>, sqlx::Error> {
        let text = end(resolved, Some(&resolved.set(State::Failed, "k.error")), &[("error", "text")]);
        let (keys, reasons): (Vec<_>, Vec<_>) =
            rows.iter().cloned().map(|(key, why)| (key, Some(why))).unzip();
        session.rows(&with_keys(resolved, text, &keys, vec![BindValue::Texts(reasons)]), id).await
    }

    async fn close(&self) {
        self.engine.close().await;
        self.viewer.close().await;
        self.operator.close().await;
    }
}

impl SessionDialect for Postgres {
    /// A query with its values. Statements of this module are not kept prepared, so that each is planned again: a plan
    /// made while the table was empty may read all of it.
    fn bound(query: &BoundQuery) -> SqlQuery<Self> {
        let text: Arc<str> = query.text.as_str().into();
        let own = |text: &Option<String>| text.as_deref().map(|text| value::text(text).into_owned());
        let ready = ready::<Postgres>(&text).persistent(query.is_repeated);
        query.values.iter().fold(ready, |query, value| match value {
            BindValue::Text(text) => query.bind(own(text)),
            BindValue::Int(int) => query.bind(*int),
            BindValue::Texts(texts) => query.bind(texts.iter().map(own).collect::<Vec<_>>()),
            BindValue::Ints(ints) => query.bind(ints.clone()),
        })
    }
}
