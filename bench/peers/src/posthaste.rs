//! Posthaste's engine with row claims, a handler that only counts, and its defaults except for the size of a claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use posthaste::config::{PollerConfig, PurgeConfig};
use posthaste::store::OnDone;
use posthaste::{Config, Delivery, Outbox, Routes};
use posthaste_sqlx::PgStore;
use sqlx::{ConnectOptions as _, Executor as _};
use tokio::sync::Notify;

use crate::Load;
use crate::database::Database;

/// What happens to a delivered row.
#[derive(Clone, Copy)]
pub(crate) enum Rows {
    Kept,
    Deleted,
}

pub(crate) async fn drain(database: &Database, load: &Load, rows: Rows) -> anyhow::Result<Duration> {
    let store = PgStore::builder(&database.options()).migrate().connect().await?;
    fill(database, load).await?;
    let (left, all) = (Arc::new(AtomicU32::new(load.events)), Arc::new(Notify::new()));
    let handler = (Arc::clone(&left), Arc::clone(&all));
    let routes = Routes::new().handle("Bench", move |_: Delivery| {
        if handler.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            handler.1.notify_one();
        }
        std::future::ready(())
    });
    let on_done = match rows {
        Rows::Kept => OnDone::Keep,
        Rows::Deleted => OnDone::Delete,
    };
    let mut config = Config::default();
    config.poller.batch = load.batch as usize;
    config.purge = PurgeConfig::default().with_on_done(on_done);
    let outbox = Outbox::from_config(store.clone(), config, routes).build()?;
    let started = Instant::now();
    outbox.start()?;
    all.notified().await;
    // Also waits for settlements in flight.
    outbox.idle().await?;
    let took = started.elapsed();
    outbox.shutdown().await;
    store.close().await;
    Ok(took)
}

async fn fill(database: &Database, load: &Load) -> anyhow::Result<()> {
    let mut connection = database.options().connect().await?;
    connection.execute("TRUNCATE outbox_event").await?;
    sqlx::query(
        "INSERT INTO outbox_event (event_id, event_type, payload)
         SELECT gen_random_uuid(), 'Bench', $2 FROM generate_series(1, $1)",
    )
    .bind(load.events.cast_signed())
    .bind(&load.payload)
    .execute(&mut connection)
    .await?;
    connection.execute("VACUUM (ANALYZE) outbox_event").await?;
    Ok(())
}
