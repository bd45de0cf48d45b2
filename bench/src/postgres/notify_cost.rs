//! Cost of notifications for a service that only writes: transactions per second with and without them.

use std::time::Duration;

use posthaste::store::{Notifier, Store as _};
use posthaste::{Outbox, Routes};
use posthaste_sqlx::postgres::Notify;
use tokio::time::timeout;

use super::PostgresBench;
use super::statements::PgStatements;
use crate::bench_store::{BenchStore as _, BenchWriter as _};
use crate::sql::SqlTables;
use crate::statistics::per_second;
use crate::workload::Load;

/// How long to wait until the listener is connected.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Transactions per second of a service without an engine, while another process listens.
pub(super) async fn transactions_per_second(
    bench: &PostgresBench,
    load: &Load,
    notify: Notify,
) -> anyhow::Result<f64> {
    let tables = bench.fresh().await?;
    let _listening = listen(bench, &tables).await?;
    let outbox = Outbox::builder(tables.store.clone(), Routes::new()).writer_only().build()?;
    let store = bench.another(&tables.outbox, notify).await?;
    let writer = tables.writer_of(&store, &outbox);
    let took = load.spread(load.events, &writer, |writer, load, number| async move {
        writer.business_and_event((number, load.body()), load.event()?).await
    });
    Ok(per_second(load.events, took.await?))
}

/// A listener that is connected.
async fn listen(bench: &PostgresBench, tables: &SqlTables<PgStatements>) -> anyhow::Result<Notifier> {
    let listener = bench.another(&tables.outbox, Notify::Off).await?;
    let wake = listener.wake().unwrap_or_default();
    // It notifies once after it has connected.
    timeout(LISTEN_TIMEOUT, wake.notified()).await?;
    Ok(wake)
}
