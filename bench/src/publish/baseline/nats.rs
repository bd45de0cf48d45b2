//! Baseline for NATS, with async-nats: acknowledged by JetStream.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::context::PublishAckFuture;

use super::{Load, Messages, address, parse, target, window};

pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    let url = parse(url)?;
    let subject = target(&url);
    let client = async_nats::connect(address(&url, 4222)).await?;
    let context = jetstream::new(client);
    // Each run has its own ids, because the stream drops repeated ones.
    let run = fastrand::u64(..);
    let body = bytes::Bytes::copy_from_slice(load.body().as_bytes());
    let mut waiting = VecDeque::new();
    let started = Instant::now();
    for message in Messages::of(load) {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{run:x}{}", message.id));
        headers.insert("key", message.key);
        waiting.push_back(context.publish_with_headers(subject.clone(), headers, body.clone()).await?);
        if waiting.len() >= window(load) {
            acknowledged(&mut waiting).await?;
        }
    }
    while !waiting.is_empty() {
        acknowledged(&mut waiting).await?;
    }
    Ok(started.elapsed())
}

async fn acknowledged(waiting: &mut VecDeque<PublishAckFuture>) -> anyhow::Result<()> {
    if let Some(first) = waiting.pop_front() {
        first.await?;
    }
    Ok(())
}
