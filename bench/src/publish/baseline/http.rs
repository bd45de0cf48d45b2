//! Webhooks, by reqwest: one POST per event, as many at once as the publisher allows.

use std::time::{Duration, Instant};

use super::{Load, Messages};

/// The publisher's own default.
const CONCURRENCY: usize = 8;

pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    // The client asks for one even where it will not be used. Somebody may have set it already.
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
    while let Some(answered) = waiting.join_next().await {
        answered??;
    }
    Ok(started.elapsed())
}
