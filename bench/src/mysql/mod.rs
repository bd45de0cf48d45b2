//! The store on MySQL and MariaDB, in tables of its own that are dropped at the end.

mod statements;

use std::str::FromStr;

use anyhow::Result;
use async_trait::async_trait;
use posthaste_sqlx::{ForeignTableStore, MySqlStore, TableName};
use posthaste_stores::OutboxRef;
use sqlx::MySqlPool;
use sqlx::mysql::MySqlConnectOptions;

use crate::bench_store::{ByHand, SnapshotGuard};
use crate::foreign_preset::{ColumnTypes, ForeignPreset};
use crate::progress::Progress;
use crate::sql::{self, SqlBench, SqlDatabase, SqlTables, baseline};
use crate::workload::Load;
use statements::MySqlStatements;

const COLUMN_TYPES: ColumnTypes = ColumnTypes { uuid: "CHAR(36)", bytes: "MEDIUMBLOB", json: "JSON" };

pub(super) type MySqlBench = SqlBench<MySqlTables>;

/// Tables that no other process uses.
pub(super) struct MySqlTables {
    options: MySqlConnectOptions,
    name: &'static str,
    /// Prefix of the names of all tables, random so that no other process uses it.
    prefix: String,
}

impl MySqlBench {
    pub(super) async fn open(options: MySqlConnectOptions, writers: usize) -> Result<Self> {
        let pool = sql::pool(options.clone(), writers).await?;
        let name = if statements::is_mariadb(&pool).await? { "mariadb" } else { "mysql" };
        let prefix = format!("posthaste_bench_{:08x}", fastrand::u32(..));
        Ok(Self::new(MySqlTables { options, name, prefix }, pool))
    }
}

#[async_trait]
impl SqlDatabase for MySqlTables {
    type Statements = MySqlStatements;

    fn name(&self) -> &'static str {
        self.name
    }

    async fn create(&self, pool: &MySqlPool, set: u32) -> Result<SqlTables<MySqlStatements>> {
        let table = TableName::from_str(&format!("{}_{set}", self.prefix))?;
        let store = MySqlStore::builder(&self.options).table(table.clone()).migrate().connect().await?;
        let statements = MySqlStatements::create(pool, &table).await?;
        let outbox = OutboxRef { table: table.to_string(), schema: None };
        Ok(SqlTables { pool: pool.clone(), store, outbox, statements })
    }

    async fn drop_tables(&self, pool: &MySqlPool) -> Result<()> {
        statements::drop_tables(pool, &self.prefix).await
    }

    async fn another_store(&self, outbox: &OutboxRef) -> Result<Option<MySqlStore>> {
        let builder = MySqlStore::builder(&self.options).table(outbox.table.parse()?);
        Ok(Some(builder.connect().await?))
    }

    /// MySQL has no notifications between processes: each polls.
    async fn by_hand(bench: &MySqlBench, load: &Load, progress: &Progress) -> Result<Option<ByHand>> {
        baseline::measure(bench, load, progress).await.map(Some)
    }

    async fn hold_snapshot(&self) -> Result<Option<SnapshotGuard>> {
        Ok(Some(statements::hold_snapshot(&self.options).await?))
    }

    async fn foreign(
        &self,
        pool: &MySqlPool,
        preset: ForeignPreset,
        load: &Load,
    ) -> Result<Option<ForeignTableStore>> {
        let table = format!("{}_foreign", self.prefix);
        for statement in preset.statements(&table, "waiting", COLUMN_TYPES, load) {
            statements::run(pool, statement).await?;
        }
        let layout = preset.layout().table(TableName::from_str(&table)?);
        Ok(Some(ForeignTableStore::mysql(&self.options, layout).connect().await?))
    }
}
