//! The relay's numbers, for Prometheus.

use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Latencies and durations, from a millisecond to ten minutes.
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0];

/// Outcomes per statement.
const EVENTS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// How often what was recorded is counted into buckets; until then it is kept value by value.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder. Engines take their handles when they start, so this comes first.
pub(super) fn install() -> anyhow::Result<PrometheusHandle> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("seconds".to_owned()), SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("size".to_owned()), EVENTS))
        .and_then(PrometheusBuilder::install_recorder)
        .context("the metrics cannot be recorded")?;
    metrics::gauge!("posthaste.build.info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(recorder)
}

/// Keeps the memory of the recorder bounded. Runs until it is dropped.
pub(super) async fn keep_up(recorder: PrometheusHandle) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        recorder.run_upkeep();
    }
}
