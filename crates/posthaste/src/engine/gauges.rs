//! The gauge sampler: reads the depths of the queues and the lag of the store. It is not part of the poller, so that a
//! slow count does not delay events.

use std::sync::Arc;
use std::time::Duration;

use super::EngineState;

/// The shortest pause between two samples.
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until it is cancelled.
pub(crate) async fn run(engine: Arc<EngineState>) {
    loop {
        sample(&engine).await;
        tokio::time::sleep(engine.settings.poller.interval.max(MIN_SAMPLE_INTERVAL)).await;
    }
}

async fn sample(engine: &EngineState) {
    let metrics = &engine.metrics;
    let (hot, cold) = engine.queue.depths();
    metrics.hot_depth.set(hot as f64);
    metrics.cold_depth.set(cold as f64);
    metrics.held.set(engine.held() as f64);
    if let Ok(oldest) = engine.call("oldest_pending", engine.store.oldest_pending(None)).await {
        metrics.lag_ms.set(oldest.unwrap_or_default().as_millis() as f64);
    }
}
