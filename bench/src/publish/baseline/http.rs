//! Baseline for webhooks, with reqwest: one POST per event, as many concurrently as the publisher allows.

use std::time::{Duration, Instant};

use super::{Load, Messages};

/// The default of the publisher.
const CONCURRENCY: usize = 8;

pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    // reqwest needs a default crypto provider even without TLS. It may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut waiting = tokio::task::JoinSet::new();
    let started = Instant::now();
    for message in Messages::of(load) {
        let request = client
            .post(url)
            .header("content-type", "application/json")
            .header("idempotency-key", message.id)
            .body(load.body().to_owned());
        waiting.spawn(async move { request.send().await?.error_for_status()?.bytes().await });
        if waiting.len() >= CONCURRENCY {
            waiting.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(finished) = waiting.join_next().await {
        finished??;
    }
    Ok(started.elapsed())
}
