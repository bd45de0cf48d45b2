//! The gauge sampler: reads the depths of the queues and the lag of the store. A task apart from the poller,
//! so that a slow count never keeps events waiting.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;

/// The shortest pause between two readings.
const SHORTEST: Duration = Duration::from_secs(1);

/// Runs until it is cancelled.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        sample(&shared).await;
        tokio::time::sleep(shared.settings.poller.interval.max(SHORTEST)).await;
    }
}

async fn sample(shared: &Shared) {
    let metrics = &shared.metrics;
    let (hot, cold) = shared.queue.depths();
    metrics.hot_depth.set(hot as f64);
    metrics.cold_depth.set(cold as f64);
    metrics.held.set(shared.held() as f64);
    if let Ok(oldest) = shared.call("oldest_pending", shared.store.oldest_pending(None)).await {
        metrics.lag_ms.set(oldest.unwrap_or_default().as_millis() as f64);
    }
}
