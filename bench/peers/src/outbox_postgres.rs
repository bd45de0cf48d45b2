//! oxide-outbox: `outbox-core` with `outbox-postgres`, and a transport that only counts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use outbox_core::prelude::*;
use outbox_postgres::PostgresOutbox;
use serde_json::Value;
use sqlx08::Executor as _;
use tokio::sync::watch;

use crate::database::Database;
use crate::{Commits, Load};

/// Creates its table with the migration in the sources of the crate.
pub(crate) async fn install(database: &Database) -> anyhow::Result<()> {
    let migration = std::fs::read_to_string(migration_file()?)?;
    let pool = database.peer_pool(Commits::AsTheyCome).await?;
    pool.execute(migration.as_str()).await?;
    pool.close().await;
    Ok(())
}

/// The path of the migration. The crate has its SQL only in its sources; cargo knows where those are.
fn migration_file() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest])
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == "outbox-postgres");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = Path::new(manifest.context("outbox-postgres is not there")?).with_file_name("migrations");
    let mut files =
        std::fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    files.into_iter().next().context("outbox-postgres has no migration")
}

pub(crate) async fn drain(database: &Database, load: &Load, commits: Commits) -> anyhow::Result<Duration> {
    let pool = database.peer_pool(commits).await?;
    fill(&pool, load).await?;
    let mut config = OutboxConfig::<Value>::default();
    config.batch_size = load.batch;
    config.poll_interval_secs = 1;
    let config = Arc::new(config);
    let (stop, stopped) = watch::channel(false);
    let transport = CountingTransport { left: AtomicU32::new(load.events), stop };
    let manager = OutboxManagerBuilder::new()
        .storage(Arc::new(PostgresOutbox::new(pool.clone(), Arc::clone(&config))))
        .publisher(Arc::new(transport))
        .config(config)
        .shutdown_rx(stopped)
        .build()?;
    let started = Instant::now();
    // Ends after the shutdown was requested and the last batch is settled.
    manager.run().await?;
    let took = started.elapsed();
    let unsent: i64 = sqlx08::query_scalar("SELECT count(*) FROM outbox_events WHERE status <> 'Sent'")
        .fetch_one(&pool)
        .await?;
    ensure!(unsent == 0, "outbox-postgres left {unsent} events");
    pool.close().await;
    Ok(took)
}

async fn fill(pool: &sqlx08::PgPool, load: &Load) -> anyhow::Result<()> {
    pool.execute("TRUNCATE outbox_events").await?;
    sqlx08::query(
        "INSERT INTO outbox_events (event_type, payload)
         SELECT 'Bench', $2::jsonb FROM generate_series(1, $1)",
    )
    .bind(load.events.cast_signed())
    .bind(&load.payload)
    .execute(pool)
    .await?;
    pool.execute("VACUUM (ANALYZE) outbox_events").await?;
    Ok(())
}

struct CountingTransport {
    left: AtomicU32,
    stop: watch::Sender<bool>,
}

#[async_trait]
impl Transport<Value> for CountingTransport {
    async fn publish(&self, _: Event<Value>) -> Result<(), OutboxError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let _ = self.stop.send(true);
        }
        Ok(())
    }
}
