//! Baseline for Redis Streams, with redis: pipelines of XADD with the same fields, because each field costs the server.

use std::time::{Duration, Instant};

use super::super::super::workload::EVENT_TYPE;
use super::super::{AGGREGATE_TYPE, NULL_BATCH_EVENTS};
use super::{Load, Messages, parameter, parse};

pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    let parsed = parse(url)?;
    let stream = parameter(&parsed, "stream").unwrap_or_default();
    let server = url.replacen("-stream", "", 1);
    let server = server.split('?').next().unwrap_or_default();
    let client = redis::Client::open(server)?;
    let connection = client.get_multiplexed_async_connection().await?;
    let mut messages = Messages::of(load);
    let mut waiting = tokio::task::JoinSet::new();
    let started = Instant::now();
    loop {
        let mut pipeline = redis::pipe();
        for message in messages.by_ref().take(NULL_BATCH_EVENTS) {
            pipeline
                .cmd("XADD")
                .arg(&stream)
                .arg("*")
                .arg(&[("id", message.id.as_str()), ("type", EVENT_TYPE), ("key", &message.key)])
                .arg(&[
                    ("content-type", "application/json"),
                    ("header:outbox-aggregate-type", AGGREGATE_TYPE),
                ])
                .arg(&[
                    ("header:outbox-occurred-at", "2026-11-16T10:00:00.000000Z"),
                    ("payload", load.body()),
                ])
                .ignore();
        }
        if pipeline.is_empty() {
            break;
        }
        let mut connection = connection.clone();
        waiting.spawn(async move { pipeline.query_async::<()>(&mut connection).await });
        if waiting.len() >= load.workers {
            waiting.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(finished) = waiting.join_next().await {
        finished??;
    }
    Ok(started.elapsed())
}
