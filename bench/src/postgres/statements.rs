//! Statements on the tables of the benchmark. They contain only generated names.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use posthaste::store::LeaseToken;
use posthaste::{EventId, GLOBAL, Outbox};
use posthaste_sqlx::{PgStore, PgTx, PgWriter, SchemaName, TableName};
use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, PgPool, Postgres, Row as _};

use crate::bench_store::{Business, SnapshotGuard, TableFill};
use crate::sql::Statements;
use crate::sql::baseline::{self, CLAIM_EVENTS, ClaimedRow, LEASE_OWNER, RelayMode, RelayStatements, Rows};
use crate::workload::{self, Load};

/// The session settings of the store's own connections.
const SETTINGS: [(&str, &str); 6] = [
    ("synchronous_commit", "off"),
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

pub(super) async fn create_schema(pool: &PgPool, schema: &SchemaName) -> Result<()> {
    run(pool, format!("CREATE SCHEMA \"{schema}\"")).await
}

pub(super) async fn drop_schema(pool: &PgPool, schema: &SchemaName) -> Result<()> {
    run(pool, format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS \"{schema}\" CASCADE")).await
}

pub(super) async fn run(pool: &PgPool, text: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await?;
    Ok(())
}

/// A transaction in a session of its own that holds a snapshot, like a forgotten report.
pub(super) async fn hold_snapshot(options: &PgConnectOptions) -> Result<SnapshotGuard> {
    let mut connection = options.clone().disable_statement_logging().connect().await?;
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await?;
    Ok(Box::new(connection))
}

#[derive(Clone)]
pub(crate) struct PgStatements {
    business: Arc<str>,
    event: Arc<str>,
    event_returning: Arc<str>,
    present: Arc<str>,
    claim: Arc<str>,
    settle: Arc<str>,
    fill: Arc<str>,
    vacuum: Arc<str>,
}

/// The columns that the Writer fills for an event with a lease.
const COLUMNS: &str = "event_id, event_type, aggregate_type, payload, created_at, available_at, locked_by, \
                       lease_token, lease_until, inserted_at, locked_at";

impl PgStatements {
    pub(super) async fn create(pool: &PgPool, schema: &SchemaName, table: &TableName) -> Result<Self> {
        let (outbox, business) =
            (format!("\"{schema}\".\"{table}\""), format!("\"{schema}\".\"{table}_business\""));
        run(pool, format!("CREATE TABLE {business} (number bigint PRIMARY KEY, body text NOT NULL)")).await?;
        let event = format!(
            "INSERT INTO {outbox} ({COLUMNS}) VALUES ($1, $2, $3, $4, statement_timestamp(), \
             statement_timestamp(), $5, $6, statement_timestamp() + interval '10s', statement_timestamp(), \
             statement_timestamp())"
        );
        Ok(Self {
            business: format!("INSERT INTO {business} (number, body) VALUES ($1, $2)").into(),
            event_returning: format!("{event} RETURNING seq").into(),
            event: event.into(),
            present: format!("SELECT seq FROM {outbox} WHERE seq = ANY ($1)").into(),
            claim: format!(
                "WITH picked AS MATERIALIZED (SELECT seq FROM {outbox}
                   WHERE status IN (0, 2) AND available_at <= statement_timestamp()
                     AND (lease_until IS NULL OR lease_until <= statement_timestamp())
                   ORDER BY available_at, seq LIMIT {CLAIM_EVENTS} FOR UPDATE SKIP LOCKED)
                 UPDATE {outbox} AS o SET locked_by = $1, locked_at = statement_timestamp(), lease_token = $2,
                   lease_until = statement_timestamp() + interval '30s'
                 FROM picked WHERE o.seq = picked.seq
                 RETURNING o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id,
                   o.headers, o.payload, o.attempts, o.created_at::text"
            )
            .into(),
            settle: format!(
                "UPDATE {outbox} SET status = 1, done_at = statement_timestamp(), locked_by = NULL,
                   locked_at = NULL, lease_until = NULL, lease_token = 0
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
}

#[async_trait]
impl Statements for PgStatements {
    type Db = Postgres;
    type Store = PgStore;
    type Writer = PgWriter;
    type Tx = PgTx;

    fn writer(store: &PgStore, outbox: &Outbox) -> PgWriter {
        PgWriter::new(store, outbox)
    }

    async fn begin(writer: &PgWriter, pool: &PgPool) -> Result<PgTx> {
        Ok(writer.begin(pool).await?)
    }

    async fn close(store: &PgStore) {
        store.close().await;
    }

    async fn insert_business(&self, db: &mut PgConnection, (number, body): Business<'_>) -> Result<()> {
        query(&self.business).bind(i64::try_from(number)?).bind(body).execute(db).await?;
        Ok(())
    }

    async fn insert_event(&self, db: &mut PgConnection, (_, body): Business<'_>) -> Result<()> {
        event_values(query(&self.event), body).execute(db).await?;
        Ok(())
    }

    async fn settle_one_by_one(&self, pool: &PgPool, events: u64, load: &Load) -> Result<Option<Duration>> {
        baseline::settle_one_by_one(pool, self, events, load).await
    }

    async fn fill(&self, pool: &PgPool, full: TableFill, load: &Load) -> Result<bool> {
        baseline::fill(pool, self, full, load).await
    }
}

#[async_trait]
impl RelayStatements for PgStatements {
    /// In batches the connection has the settings of the store, so commits do not wait for the disk. A simple relay has
    /// the settings of the server.
    async fn connect(pool: &PgPool, mode: RelayMode) -> Result<PgConnection> {
        let options = PgConnectOptions::clone(&pool.connect_options()).disable_statement_logging();
        let settings = if mode == RelayMode::InBatches { &SETTINGS[..] } else { &[] };
        Ok(options.options(settings.iter().copied()).connect().await?)
    }

    async fn insert_proved(&self, db: &mut PgConnection, (_, body): Business<'_>) -> Result<bool> {
        let row = event_values(query(&self.event_returning), body).fetch_one(&mut *db).await?;
        let seq: i64 = row.try_get(0)?;
        Ok(query(&self.present).bind(vec![seq]).fetch_all(db).await?.len() == 1)
    }

    async fn claim(&self, db: &mut PgConnection) -> Result<Vec<i64>> {
        let claim = sqlx::query_as(AssertSqlSafe(Arc::clone(&self.claim))).bind("by hand").bind(1_i64);
        let rows: Vec<ClaimedRow<String>> = claim.fetch_all(db).await?;
        Ok(baseline::positions(&rows))
    }

    async fn settle(&self, db: &mut PgConnection, seqs: &[i64]) -> Result<u64> {
        Ok(query(&self.settle).bind(seqs).execute(db).await?.rows_affected())
    }

    async fn insert_rows(&self, db: &mut PgConnection, rows: Rows<'_>) -> Result<()> {
        let Rows { count, status, due_in_s, body } = rows;
        let attempts = i32::from(status == 2);
        let query = query(&self.fill).bind(i64::try_from(count)?).bind(workload::EVENT_TYPE).bind(body);
        query.bind(status).bind(attempts).bind(due_in_s as f64).execute(db).await?;
        Ok(())
    }

    async fn analyze(&self, pool: &PgPool) -> Result<()> {
        run(pool, self.vacuum.to_string()).await
    }
}

fn query(text: &Arc<str>) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(text)))
}

/// The values that the Writer binds for an event with a lease.
fn event_values(
    query: Query<'static, Postgres, PgArguments>,
    body: &str,
) -> Query<'static, Postgres, PgArguments> {
    let query = query.bind(EventId::uuid_v7().as_str().to_owned()).bind(workload::EVENT_TYPE).bind(GLOBAL);
    query.bind(body.to_owned()).bind(LEASE_OWNER).bind(LeaseToken::random().as_i64())
}
