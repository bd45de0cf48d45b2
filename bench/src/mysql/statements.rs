//! Statements on the tables of the benchmark. They contain only generated names.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use posthaste::store::LeaseToken;
use posthaste::{EventId, GLOBAL, Outbox};
use posthaste_sqlx::{MySqlStore, MySqlTx, MySqlWriter, TableName};
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions};
use sqlx::query::Query;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, MySql, MySqlConnection, MySqlPool,
};

use crate::bench_store::{Business, SnapshotGuard, TableFill};
use crate::sql::Statements;
use crate::sql::baseline::{self, CLAIM_EVENTS, ClaimedRow, LEASE_OWNER, RelayMode, RelayStatements, Rows};
use crate::workload::{self, Load};

/// The isolation level of the store's own connections: a claim locks the rows that it finds, but not the gaps between.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

type MySqlQuery = Query<'static, MySql, MySqlArguments>;

pub(super) async fn is_mariadb(pool: &MySqlPool) -> Result<bool> {
    let version: String = sqlx::query_scalar("SELECT VERSION()").fetch_one(pool).await?;
    Ok(version.contains("MariaDB"))
}

pub(super) async fn drop_tables(pool: &MySqlPool, prefix: &str) -> Result<()> {
    let tables = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables
       WHERE table_schema = DATABASE() AND LEFT(table_name, CHAR_LENGTH(?)) = ?";
    let tables: Vec<String> = sqlx::query_scalar(tables).bind(prefix).bind(prefix).fetch_all(pool).await?;
    if tables.is_empty() {
        return Ok(());
    }
    run(pool, format!("DROP TABLE `{}`", tables.join("`, `"))).await
}

pub(super) async fn run(pool: &MySqlPool, text: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await?;
    Ok(())
}

/// A transaction in a session of its own that holds a snapshot, like a forgotten report.
pub(super) async fn hold_snapshot(options: &MySqlConnectOptions) -> Result<SnapshotGuard> {
    let mut connection = options.clone().disable_statement_logging().connect().await?;
    connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
    Ok(Box::new(connection))
}

#[derive(Clone)]
pub(crate) struct MySqlStatements {
    business: Arc<str>,
    event: Arc<str>,
    present: Arc<str>,
    find: Arc<str>,
    lease: Arc<str>,
    settle: Arc<str>,
    fill: Arc<str>,
    analyze: Arc<str>,
}

/// The columns that the Writer fills for an event with a lease.
const COLUMNS: &str = "event_id, event_type, aggregate_type, payload, created_at, available_at, locked_by, \
                       lease_token, lease_until, inserted_at, locked_at";

/// Maximum number of rows per INSERT. `NUMBERS` generates as many numbers from 0 on.
const FILL_BATCH_ROWS: u64 = 100_000;
const NUMBERS: &str =
    "(WITH digits AS (SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 \
     UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 \
     UNION ALL SELECT 9)
   SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n
   FROM digits a, digits b, digits c, digits e, digits f) AS numbers";

impl MySqlStatements {
    pub(super) async fn create(pool: &MySqlPool, table: &TableName) -> Result<Self> {
        let (outbox, business) = (format!("`{table}`"), format!("`{table}_business`"));
        run(
            pool,
            format!("CREATE TABLE {business} (number BIGINT PRIMARY KEY, body TEXT NOT NULL) ENGINE=InnoDB"),
        )
        .await?;
        Ok(Self {
            business: format!("INSERT INTO {business} (number, body) VALUES (?, ?)").into(),
            event: format!(
                "INSERT INTO {outbox} ({COLUMNS}) VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), ?, ?,
                   UTC_TIMESTAMP(6) + INTERVAL 10 SECOND, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))"
            )
            .into(),
            present: format!("SELECT seq FROM {outbox} WHERE seq = ?").into(),
            find: format!(
                "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, headers, payload,
                   attempts, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', created_at)
                 FROM {outbox} FORCE INDEX (`{table}_due`) WHERE phase = 0 AND phase_at <= UTC_TIMESTAMP(6)
                   AND (lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(6))
                 ORDER BY phase_at, seq LIMIT {CLAIM_EVENTS} FOR UPDATE SKIP LOCKED"
            )
            .into(),
            lease: format!(
                "UPDATE {outbox} SET locked_by = ?, locked_at = UTC_TIMESTAMP(6), lease_token = ?,
                   lease_until = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND WHERE seq IN "
            )
            .into(),
            settle: format!(
                "UPDATE {outbox} SET status = 1, done_at = UTC_TIMESTAMP(6), locked_by = NULL, locked_at = NULL,
                   lease_until = NULL, lease_token = 0 WHERE status IN (0, 2) AND seq IN "
            )
            .into(),
            fill: format!(
                "INSERT INTO {outbox} (event_id, event_type, payload, status, attempts, available_at, done_at, \
                   last_error)
                 SELECT CONCAT(?, LPAD(n, 6, '0')), ?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? SECOND,
                   IF(? = 1, UTC_TIMESTAMP(6), NULL), IF(? = 2, 'not today', NULL)
                 FROM {NUMBERS} WHERE n < ?"
            )
            .into(),
            analyze: format!("ANALYZE TABLE {outbox}").into(),
        })
    }

    fn lease(&self, owner: &'static str, token: i64, seqs: &[i64]) -> MySqlQuery {
        bind_all(listed(&self.lease, seqs.len()).bind(owner).bind(token), seqs)
    }
}

#[async_trait]
impl Statements for MySqlStatements {
    type Db = MySql;
    type Store = MySqlStore;
    type Writer = MySqlWriter;
    type Tx = MySqlTx;

    fn writer(store: &MySqlStore, outbox: &Outbox) -> MySqlWriter {
        MySqlWriter::new(store, outbox)
    }

    async fn begin(writer: &MySqlWriter, pool: &MySqlPool) -> Result<MySqlTx> {
        Ok(writer.begin(pool).await?)
    }

    async fn close(store: &MySqlStore) {
        store.close().await;
    }

    async fn insert_business(&self, db: &mut MySqlConnection, (number, body): Business<'_>) -> Result<()> {
        query(&self.business).bind(i64::try_from(number)?).bind(body).execute(db).await?;
        Ok(())
    }

    async fn insert_event(&self, db: &mut MySqlConnection, (_, body): Business<'_>) -> Result<()> {
        event_values(query(&self.event), body).execute(db).await?;
        Ok(())
    }

    async fn settle_one_by_one(
        &self,
        pool: &MySqlPool,
        events: u64,
        load: &Load,
    ) -> Result<Option<Duration>> {
        baseline::settle_one_by_one(pool, self, events, load).await
    }

    async fn fill(&self, pool: &MySqlPool, full: TableFill, load: &Load) -> Result<bool> {
        baseline::fill(pool, self, full, load).await
    }
}

#[async_trait]
impl RelayStatements for MySqlStatements {
    async fn connect(pool: &MySqlPool, _: RelayMode) -> Result<MySqlConnection> {
        let options = MySqlConnectOptions::clone(&pool.connect_options());
        let mut connection = options.disable_statement_logging().connect().await?;
        connection.execute(ISOLATION).await?;
        Ok(connection)
    }

    async fn insert_proved(&self, db: &mut MySqlConnection, (_, body): Business<'_>) -> Result<bool> {
        let inserted = event_values(query(&self.event), body).execute(&mut *db).await?;
        Ok(query(&self.present).bind(inserted.last_insert_id()).fetch_all(db).await?.len() == 1)
    }

    async fn claim(&self, db: &mut MySqlConnection) -> Result<Vec<i64>> {
        let mut tx = db.begin().await?;
        let find = sqlx::query_as(AssertSqlSafe(Arc::clone(&self.find)));
        let rows: Vec<ClaimedRow<i64>> = find.fetch_all(&mut *tx).await?;
        let seqs = baseline::positions(&rows);
        if !seqs.is_empty() {
            self.lease("by hand", 1, &seqs).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(seqs)
    }

    async fn settle(&self, db: &mut MySqlConnection, seqs: &[i64]) -> Result<u64> {
        let settle = bind_all(listed(&self.settle, seqs.len()), seqs);
        Ok(settle.execute(db).await?.rows_affected())
    }

    async fn insert_rows(&self, db: &mut MySqlConnection, rows: Rows<'_>) -> Result<()> {
        let Rows { count: mut left, status, due_in_s, body } = rows;
        let attempts = i32::from(status == 2);
        while left > 0 {
            let ids = format!("{:016x}-", fastrand::u64(..));
            let query =
                query(&self.fill).bind(ids).bind(workload::EVENT_TYPE).bind(body.to_owned()).bind(status);
            let query = query.bind(attempts).bind(due_in_s).bind(status).bind(status);
            query.bind(left.min(FILL_BATCH_ROWS)).execute(&mut *db).await?;
            left -= left.min(FILL_BATCH_ROWS);
        }
        Ok(())
    }

    async fn analyze(&self, pool: &MySqlPool) -> Result<()> {
        run(pool, self.analyze.to_string()).await
    }
}

/// The values that the Writer binds for an event with a lease.
fn event_values(query: MySqlQuery, body: &str) -> MySqlQuery {
    let query = query.bind(EventId::uuid_v7().as_str().to_owned()).bind(workload::EVENT_TYPE).bind(GLOBAL);
    query.bind(body.to_owned()).bind(LEASE_OWNER).bind(LeaseToken::random().as_i64())
}

fn query(text: &Arc<str>) -> MySqlQuery {
    sqlx::query(AssertSqlSafe(Arc::clone(text)))
}

/// The statement with `places` placeholders at its end.
fn listed(text: &str, places: usize) -> MySqlQuery {
    sqlx::query(AssertSqlSafe(format!("{text}({})", vec!["?"; places].join(", "))))
}

fn bind_all(query: MySqlQuery, seqs: &[i64]) -> MySqlQuery {
    seqs.iter().fold(query, |query, seq| query.bind(*seq))
}
