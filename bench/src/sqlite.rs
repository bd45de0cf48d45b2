//! The SQLite store, on tables of its own in any file.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste::{Event, EventId, GLOBAL, Outbox, Store};
use posthaste_sqlx::{SqliteStore, SqliteWriter, TableName};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use super::bench_store::{
    BenchStore, BenchTables, BenchWriter, ByHand, CrossProcessLatency, SnapshotGuard, TableFill,
};
use super::load::{self, Load};
use super::progress::Progress;
use posthaste_stores::OutboxRef;

/// A SQLite file with tables that nobody else has.
pub(super) struct SqliteBench {
    options: SqliteConnectOptions,
    pool: SqlitePool,
    /// What all our tables begin with, random so that they are nobody else's.
    prefix: String,
    sets: AtomicU32,
    open: Mutex<Vec<SqliteStore>>,
    /// The file, if it was not there before.
    ours: Option<PathBuf>,
}

impl SqliteBench {
    pub(super) async fn open(options: SqliteConnectOptions, writers: usize) -> anyhow::Result<Self> {
        let file = options.get_filename().to_owned();
        let ours = (!file.exists()).then_some(file);
        // As the store's own connections, so that nothing but the statements differs.
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(30));
        let connections = u32::try_from(writers)?.saturating_add(1);
        let pool =
            SqlitePoolOptions::new().max_connections(connections).connect_with(options.clone()).await?;
        let prefix = format!("posthaste_bench_{:08x}", fastrand::u32(..));
        Ok(Self { options, pool, prefix, sets: AtomicU32::new(0), open: Mutex::default(), ours })
    }
}

impl BenchStore for SqliteBench {
    type Tables = SqliteTables;

    fn name(&self) -> &'static str {
        "sqlite"
    }

    async fn create(&self) -> anyhow::Result<SqliteTables> {
        let set = self.sets.fetch_add(1, Ordering::Relaxed);
        let outbox = TableName::from_str(&format!("{}_{set}", self.prefix))?;
        let business = format!("{outbox}_business");
        let create = format!("CREATE TABLE \"{business}\" (number INTEGER PRIMARY KEY, body TEXT NOT NULL)");
        sqlx::query(AssertSqlSafe(create)).execute(&self.pool).await?;
        let store = SqliteStore::builder(&self.options).table(outbox.clone()).migrate().connect().await?;
        self.open.lock().await.push(store.clone());
        let statements = Statements {
            business: format!("INSERT INTO \"{business}\" (number, body) VALUES (?, ?)").into(),
            event: format!(
                "INSERT INTO \"{outbox}\" (event_id, event_type, aggregate_type, aggregate_id, payload) \
                 VALUES (?, ?, ?, ?, ?)"
            )
            .into(),
        };
        Ok(SqliteTables { pool: self.pool.clone(), store, table: outbox, statements })
    }

    async fn clear(&self) -> anyhow::Result<()> {
        for store in self.open.lock().await.drain(..) {
            store.close().await;
        }
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1",
        )
        .bind(&self.prefix)
        .fetch_all(&self.pool)
        .await?;
        for table in tables {
            sqlx::query(AssertSqlSafe(format!("DROP TABLE \"{table}\""))).execute(&self.pool).await?;
        }
        Ok(())
    }

    async fn close(&self) -> anyhow::Result<()> {
        self.clear().await?;
        self.pool.close().await;
        if let Some(file) = &self.ours {
            for suffix in ["", "-wal", "-shm"] {
                let mut name = file.clone().into_os_string();
                name.push(suffix);
                // The last connection has removed the other two already.
                let _ = std::fs::remove_file(name);
            }
        }
        Ok(())
    }

    async fn by_hand(&self, _: &Load, _: &Progress) -> anyhow::Result<Option<ByHand>> {
        Ok(None)
    }

    async fn cross_process_latency(&self, _: &Load) -> anyhow::Result<Option<CrossProcessLatency>> {
        Ok(None)
    }

    async fn hold_snapshot(&self) -> anyhow::Result<Option<SnapshotGuard>> {
        Ok(None)
    }
}

/// Only names that were made above are in them.
#[derive(Clone)]
struct Statements {
    business: Arc<str>,
    event: Arc<str>,
}

impl Statements {
    async fn insert_business(
        &self,
        connection: &mut SqliteConnection,
        number: u64,
        body: &str,
    ) -> anyhow::Result<()> {
        sqlx::query(AssertSqlSafe(Arc::clone(&self.business)))
            .bind(i64::try_from(number)?)
            .bind(body)
            .execute(connection)
            .await?;
        Ok(())
    }
}

#[derive(Clone)]
pub(super) struct SqliteTables {
    pool: SqlitePool,
    store: SqliteStore,
    table: TableName,
    statements: Statements,
}

impl BenchTables for SqliteTables {
    type Writer = SqliteTablesWriter;

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn writer(&self, outbox: &Outbox) -> SqliteTablesWriter {
        SqliteTablesWriter { tables: self.clone(), writer: self.store.writer(outbox) }
    }

    fn outbox_ref(&self) -> Option<OutboxRef> {
        Some(OutboxRef { table: self.table.to_string(), schema: None })
    }

    async fn business(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        self.statements.insert_business(&mut tx, number, body).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn hand_written(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        self.statements.insert_business(&mut tx, number, body).await?;
        sqlx::query(AssertSqlSafe(Arc::clone(&self.statements.event)))
            .bind(EventId::uuid_v7().as_str())
            .bind(load::EVENT_TYPE)
            .bind(GLOBAL)
            .bind(number.to_string())
            .bind(body)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn settle_one_by_one(&self, _: u64, _: &Load) -> anyhow::Result<Option<Duration>> {
        Ok(None)
    }

    async fn fill(&self, _: TableFill, _: &Load) -> anyhow::Result<bool> {
        Ok(false)
    }
}

#[derive(Clone)]
pub(super) struct SqliteTablesWriter {
    tables: SqliteTables,
    writer: SqliteWriter,
}

impl BenchWriter for SqliteTablesWriter {
    async fn business_and_event(&self, number: u64, body: &str, event: Event) -> anyhow::Result<()> {
        let mut tx = self.writer.begin(&self.tables.pool).await?;
        self.tables.statements.insert_business(&mut tx, number, body).await?;
        tx.write(event).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn events(&self, events: Vec<Event>) -> anyhow::Result<()> {
        let mut tx = self.writer.begin(&self.tables.pool).await?;
        tx.write_all(events).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn events_singly(&self, events: Vec<Event>) -> anyhow::Result<()> {
        let mut tx = self.writer.begin(&self.tables.pool).await?;
        for event in events {
            tx.write(event).await?;
        }
        tx.commit().await?;
        Ok(())
    }
}
