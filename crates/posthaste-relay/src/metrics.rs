//! Metrics recorder of the relay, for Prometheus.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// Histogram buckets of latencies and durations, in seconds: from a millisecond to ten minutes.
const SECONDS_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0];

/// Histogram buckets of batch sizes, in events.
const EVENTS_BUCKETS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// Interval in which recorded values are counted into buckets. Until then the recorder keeps each value.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The recorder of this process.
#[derive(Clone, Debug)]
pub struct Recorder(PrometheusHandle);

/// Installs the recorder. Call it before engines start, because they take their metric handles at the start.
///
/// # Errors
///
/// Another recorder is installed in this process.
pub fn install() -> Result<Recorder, BuildError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("seconds".to_owned()), SECONDS_BUCKETS)?
        .set_buckets_for_metric(Matcher::Suffix("size".to_owned()), EVENTS_BUCKETS)?
        .install_recorder()?;
    metrics::gauge!("posthaste.build.info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(Recorder(recorder))
}

impl Recorder {
    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Counts recorded values into buckets, which bounds the recorder's memory. Runs until it is dropped.
    pub async fn keep_up(self) {
        let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            ticks.tick().await;
            self.0.run_upkeep();
        }
    }
}
