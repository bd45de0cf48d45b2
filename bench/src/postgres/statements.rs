//! Statements on the benchmark's own tables. Only names that were made here are in them.

use std::sync::Arc;

use posthaste_sqlx::{SchemaName, TableName};
use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, PgPool, Postgres};

use super::super::bench_store::SnapshotGuard;
use super::CLAIM_EVENTS;

pub(super) async fn create_schema(pool: &PgPool, schema: &SchemaName) -> anyhow::Result<()> {
    run(pool, format!("CREATE SCHEMA \"{schema}\"")).await
}

pub(super) async fn drop_schema(pool: &PgPool, schema: &SchemaName) -> anyhow::Result<()> {
    run(pool, format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS \"{schema}\" CASCADE")).await
}

pub(super) async fn run(pool: &PgPool, text: String) -> anyhow::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await?;
    Ok(())
}

/// A transaction in a session of its own that sees the rows of now, as a forgotten report does.
pub(super) async fn hold_snapshot(options: &PgConnectOptions) -> anyhow::Result<SnapshotGuard> {
    let mut connection = options.clone().disable_statement_logging().connect().await?;
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await?;
    Ok(Box::new(connection))
}

#[derive(Clone)]
pub(super) struct Statements {
    business: Arc<str>,
    event: Arc<str>,
    event_returning: Arc<str>,
    present: Arc<str>,
    claim: Arc<str>,
    settle: Arc<str>,
    fill: Arc<str>,
    vacuum: Arc<str>,
}

/// The columns that the Writer fills for such an event, with a lease on it.
const COLUMNS: &str = "event_id, event_type, aggregate_type, payload, created_at, available_at, locked_by, \
                       lease_token, inserted_at, locked_at";

impl Statements {
    pub(super) async fn create(
        pool: &PgPool,
        schema: &SchemaName,
        table: &TableName,
    ) -> anyhow::Result<Self> {
        let (outbox, business) =
            (format!("\"{schema}\".\"{table}\""), format!("\"{schema}\".\"{table}_business\""));
        run(pool, format!("CREATE TABLE {business} (number bigint PRIMARY KEY, body text NOT NULL)")).await?;
        let event = format!(
            "INSERT INTO {outbox} ({COLUMNS}) VALUES ($1, $2, $3, $4, statement_timestamp(), \
             statement_timestamp() + interval '10s', $5, $6, statement_timestamp(), statement_timestamp())"
        );
        Ok(Self {
            business: format!("INSERT INTO {business} (number, body) VALUES ($1, $2)").into(),
            event_returning: format!("{event} RETURNING seq").into(),
            event: event.into(),
            present: format!("SELECT seq FROM {outbox} WHERE seq = ANY ($1)").into(),
            claim: format!(
                "WITH picked AS MATERIALIZED (SELECT seq FROM {outbox}
                   WHERE status IN (0, 2) AND available_at <= statement_timestamp()
                   ORDER BY available_at, seq LIMIT {CLAIM_EVENTS} FOR UPDATE SKIP LOCKED)
                 UPDATE {outbox} AS o SET locked_by = $1, locked_at = statement_timestamp(), lease_token = $2,
                   available_at = statement_timestamp() + interval '30s'
                 FROM picked WHERE o.seq = picked.seq
                 RETURNING o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id,
                   o.headers, o.payload, o.attempts, o.created_at::text"
            )
            .into(),
            settle: format!(
                "UPDATE {outbox} SET status = 1, done_at = statement_timestamp(), locked_by = NULL,
                   locked_at = NULL, lease_token = 0
                 WHERE seq = ANY ($1) AND status NOT IN (1, 3)"
            )
            .into(),
            fill: format!(
                "INSERT INTO {outbox} (event_id, event_type, payload, status, attempts, available_at, \
                   done_at, last_error)
                 SELECT gen_random_uuid(), $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 s',
                   CASE WHEN $4 = 1 THEN clock_timestamp() END, CASE WHEN $4 = 2 THEN 'not today' END
                 FROM generate_series(1, $1)"
            )
            .into(),
            vacuum: format!("VACUUM (ANALYZE) {outbox}").into(),
        })
    }

    pub(super) fn insert_business(&self) -> Query<'static, Postgres, PgArguments> {
        query(&self.business)
    }

    pub(super) fn insert_event(&self) -> Query<'static, Postgres, PgArguments> {
        query(&self.event)
    }

    pub(super) fn insert_event_returning(&self) -> Query<'static, Postgres, PgArguments> {
        query(&self.event_returning)
    }

    /// The rows that are still there.
    pub(super) fn present(&self) -> Query<'static, Postgres, PgArguments> {
        query(&self.present)
    }

    pub(super) fn claim(&self) -> Query<'static, Postgres, PgArguments> {
        query(&self.claim)
    }

    pub(super) fn settle(&self) -> Query<'static, Postgres, PgArguments> {
        query(&self.settle)
    }

    /// So many rows at once, of a status, and due in so many seconds.
    pub(super) async fn fill(
        &self,
        connection: &mut PgConnection,
        rows: u64,
        (status, due_in_s): (i16, i64),
        (event_type, body): (&str, &str),
    ) -> anyhow::Result<()> {
        let attempts = i32::from(status == 2);
        let query = query(&self.fill).bind(i64::try_from(rows)?).bind(event_type).bind(body);
        query.bind(status).bind(attempts).bind(due_in_s as f64).execute(connection).await?;
        Ok(())
    }

    /// What autovacuum does sooner or later, now.
    pub(super) async fn vacuum(&self, pool: &PgPool) -> anyhow::Result<()> {
        run(pool, self.vacuum.to_string()).await
    }
}

fn query(text: &Arc<str>) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(text)))
}
