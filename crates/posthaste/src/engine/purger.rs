//! The purger: removes old rows, in batches, so that no statement holds locks for long.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::EngineState;
use crate::config::{Mode, PurgeConfig, Retention};
use crate::error::StoreError;
use crate::store::{OnDone, Purge, Purgeable};

/// The first purge runs within this time.
const MAX_FIRST_PURGE_DELAY: Duration = Duration::from_secs(60);

/// Runs until it is cancelled. The next purge waits for the interval after the end of the last.
pub(crate) async fn run(engine: Arc<EngineState>) {
    let interval = engine.settings.purge.interval;
    // Soon after the start, because a process that restarts often would never purge otherwise. Not immediately, because
    // nodes that start together would purge together.
    let mut pause = interval.min(MAX_FIRST_PURGE_DELAY).mul_f64(fastrand::f64());
    loop {
        tokio::time::sleep(std::mem::replace(&mut pause, interval)).await;
        // A failure is logged by `call`, and the next purge tries again.
        if let Ok(rows @ 1..) = purge(&engine).await {
            tracing::info!(outbox = %engine.settings.name, rows, "old events purged");
        }
    }
}

/// Purges once, in batches, until a batch is not full. Returns how many rows were removed.
pub(crate) async fn purge(engine: &EngineState) -> Result<u64, StoreError> {
    let mut total = 0;
    for (what, older_than, archive) in jobs(engine.settings.mode, &engine.settings.purge) {
        let request = Purge::new(what, older_than, engine.settings.purge.batch).with_archive(archive);
        total += all(engine, &request).await?;
    }
    Ok(total)
}

async fn all(engine: &EngineState, request: &Purge) -> Result<u64, StoreError> {
    let started = Instant::now();
    let mut total = 0;
    loop {
        let rows = engine.call("purge", engine.store.purge_batch(request)).await?;
        total += rows;
        if rows < request.limit as u64 {
            tracing::debug!(rows = total, took = ?started.elapsed(), "purged {:?}", request.what);
            return Ok(total);
        }
    }
}

/// What to purge. A writer-only outbox does not know what was delivered, so it purges by age only.
fn jobs(mode: Mode, purge: &PurgeConfig) -> impl Iterator<Item = (Purgeable, Duration, bool)> {
    let of = |what, retention: &Retention| {
        let wanted = mode != Mode::WriterOnly && retention.action != OnDone::Keep;
        wanted.then(|| (what, retention.after, retention.action == OnDone::Archive))
    };
    let by_status = [of(Purgeable::Done, &purge.done), of(Purgeable::Dead, &purge.dead)];
    let by_age = purge.age.map(|age| (Purgeable::Any, age, false));
    let archived = purge.archived.map(|age| (Purgeable::Archived, age, false));
    by_status.into_iter().chain([by_age, archived]).flatten()
}
