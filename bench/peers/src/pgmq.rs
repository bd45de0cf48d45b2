//! pgmq, a queue in SQL functions, with a loop of reads and deletes that a service would write itself.

use std::time::{Duration, Instant};

use anyhow::ensure;
use pgmq::PGMQueueExt;
use serde_json::Value;
use sqlx08::Executor as _;

use crate::database::Database;
use crate::{Commits, Load};

const QUEUE_NAME: &str = "bench";

/// Seconds for which a message is hidden after it was read.
const VISIBILITY_TIMEOUT_SECONDS: i32 = 30;

/// Installs its functions from the SQL in the crate, so the server needs no extension.
pub(crate) async fn install(database: &Database) -> anyhow::Result<()> {
    let queue = queue(database, Commits::AsTheyCome).await?;
    queue.install_sql_from_embedded().await?;
    queue.create(QUEUE_NAME).await?;
    queue.connection.close().await;
    Ok(())
}

pub(crate) async fn drain(database: &Database, load: &Load, commits: Commits) -> anyhow::Result<Duration> {
    let queue = queue(database, commits).await?;
    fill(&queue, load).await?;
    let started = Instant::now();
    let mut left = load.events as usize;
    while left > 0 {
        let messages = queue
            .read_batch::<Value>(QUEUE_NAME, VISIBILITY_TIMEOUT_SECONDS, load.batch.cast_signed())
            .await?;
        ensure!(!messages.is_empty(), "pgmq has lost {left} messages");
        let ids: Vec<i64> = messages.iter().map(|message| message.msg_id).collect();
        left -= queue.delete_batch(QUEUE_NAME, &ids).await?;
    }
    let took = started.elapsed();
    queue.connection.close().await;
    Ok(took)
}

async fn queue(database: &Database, commits: Commits) -> anyhow::Result<PGMQueueExt> {
    Ok(PGMQueueExt::new_with_pool(database.peer_pool(commits).await?).await)
}

async fn fill(queue: &PGMQueueExt, load: &Load) -> anyhow::Result<()> {
    queue.purge_queue(QUEUE_NAME).await?;
    sqlx08::query(
        "SELECT count(*) FROM pgmq.send_batch('bench', (SELECT array_agg($2::jsonb) FROM generate_series(1, $1)))",
    )
    .bind(load.events.cast_signed())
    .bind(&load.payload)
    .execute(&queue.connection)
    .await?;
    queue.connection.execute("VACUUM (ANALYZE) pgmq.q_bench").await?;
    Ok(())
}
