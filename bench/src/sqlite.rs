//! The SQLite store, in tables of its own in any file.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use posthaste::{EventId, GLOBAL, Outbox};
use posthaste_sqlx::{SqliteStore, SqliteTx, SqliteWriter, TableName};
use posthaste_stores::OutboxRef;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection, SqlitePool};

use crate::bench_store::Business;
use crate::sql::{SqlBench, SqlDatabase, SqlTables, Statements};
use crate::workload;

pub(super) type SqliteBench = SqlBench<SqliteFile>;

/// A file with tables that no other process uses.
pub(super) struct SqliteFile {
    options: SqliteConnectOptions,
    /// Prefix of the names of all tables, random so that no other process uses it.
    prefix: String,
    /// The path of the file, if this benchmark created it.
    created: Option<PathBuf>,
}

impl SqliteBench {
    pub(super) async fn open(options: SqliteConnectOptions, writers: usize) -> Result<Self> {
        let file = options.get_filename().to_owned();
        let created = (!file.exists()).then_some(file);
        // The settings of the store's own connections, so that only the statements differ.
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(30));
        let connections = u32::try_from(writers)?.saturating_add(1);
        let pool =
            SqlitePoolOptions::new().max_connections(connections).connect_with(options.clone()).await?;
        let prefix = format!("posthaste_bench_{:08x}", fastrand::u32(..));
        Ok(Self::new(SqliteFile { options, prefix, created }, pool))
    }
}

#[async_trait]
impl SqlDatabase for SqliteFile {
    type Statements = SqliteStatements;

    fn name(&self) -> &'static str {
        "sqlite"
    }

    async fn create(&self, pool: &SqlitePool, set: u32) -> Result<SqlTables<SqliteStatements>> {
        let table = TableName::from_str(&format!("{}_{set}", self.prefix))?;
        let store = SqliteStore::builder(&self.options).table(table.clone()).migrate().connect().await?;
        let statements = SqliteStatements::create(pool, &table).await?;
        let outbox = OutboxRef { table: table.to_string(), schema: None };
        Ok(SqlTables { pool: pool.clone(), store, outbox, statements })
    }

    async fn drop_tables(&self, pool: &SqlitePool) -> Result<()> {
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1",
        )
        .bind(&self.prefix)
        .fetch_all(pool)
        .await?;
        for table in tables {
            sqlx::query(AssertSqlSafe(format!("DROP TABLE \"{table}\""))).execute(pool).await?;
        }
        Ok(())
    }

    async fn close(&self, pool: &SqlitePool) -> Result<()> {
        pool.close().await;
        if let Some(file) = &self.created {
            for suffix in ["", "-wal", "-shm"] {
                let mut name = file.clone().into_os_string();
                name.push(suffix);
                // The last connection has usually removed the side files already.
                let _ = std::fs::remove_file(name);
            }
        }
        Ok(())
    }
}

/// Statements on the tables of the benchmark. They contain only generated names.
#[derive(Clone)]
pub(super) struct SqliteStatements {
    business: Arc<str>,
    event: Arc<str>,
}

impl SqliteStatements {
    async fn create(pool: &SqlitePool, table: &TableName) -> Result<Self> {
        let business = format!("{table}_business");
        let create = format!("CREATE TABLE \"{business}\" (number INTEGER PRIMARY KEY, body TEXT NOT NULL)");
        sqlx::query(AssertSqlSafe(create)).execute(pool).await?;
        Ok(Self {
            business: format!("INSERT INTO \"{business}\" (number, body) VALUES (?, ?)").into(),
            event: format!(
                "INSERT INTO \"{table}\" (event_id, event_type, aggregate_type, aggregate_id, payload) \
                 VALUES (?, ?, ?, ?, ?)"
            )
            .into(),
        })
    }
}

#[async_trait]
impl Statements for SqliteStatements {
    type Db = Sqlite;
    type Store = SqliteStore;
    type Writer = SqliteWriter;
    type Tx = SqliteTx;

    const BEGIN: &'static str = "BEGIN IMMEDIATE";

    fn writer(store: &SqliteStore, outbox: &Outbox) -> SqliteWriter {
        SqliteWriter::new(store, outbox)
    }

    async fn begin(writer: &SqliteWriter, pool: &SqlitePool) -> Result<SqliteTx> {
        Ok(writer.begin(pool).await?)
    }

    async fn close(store: &SqliteStore) {
        store.close().await;
    }

    async fn insert_business(&self, db: &mut SqliteConnection, (number, body): Business<'_>) -> Result<()> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.business)));
        query.bind(i64::try_from(number)?).bind(body).execute(db).await?;
        Ok(())
    }

    async fn insert_event(&self, db: &mut SqliteConnection, (number, body): Business<'_>) -> Result<()> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.event))).bind(EventId::uuid_v7().to_string());
        let query = query.bind(workload::EVENT_TYPE).bind(GLOBAL).bind(number.to_string()).bind(body);
        query.execute(db).await?;
        Ok(())
    }
}
