//! Baseline for Kafka, with rdkafka: an idempotent producer whose messages all replicas in sync acknowledge.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};

use super::{Load, Messages, address, parse, target, window};

pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    let url = parse(url)?;
    let topic = target(&url);
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", address(&url, 9092))
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .create()?;
    let mut waiting = VecDeque::new();
    let started = Instant::now();
    for message in Messages::of(load) {
        let id = Header { key: "id", value: Some(&message.id) };
        let record = FutureRecord::to(&topic)
            .key(&message.key)
            .payload(load.body())
            .headers(OwnedHeaders::new().insert(id));
        waiting.push_back(enqueue(&producer, record).await?);
        if waiting.len() >= window(load) {
            acknowledged(&mut waiting).await?;
        }
    }
    while !waiting.is_empty() {
        acknowledged(&mut waiting).await?;
    }
    Ok(started.elapsed())
}

async fn enqueue(
    producer: &FutureProducer,
    mut record: FutureRecord<'_, String, str>,
) -> anyhow::Result<DeliveryFuture> {
    loop {
        match producer.send_result(record) {
            Ok(future) => return Ok(future),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => record = back,
            Err((error, _)) => return Err(error.into()),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn acknowledged(waiting: &mut VecDeque<DeliveryFuture>) -> anyhow::Result<()> {
    if let Some(first) = waiting.pop_front() {
        first.await?.map_err(|(error, _)| error)?;
    }
    Ok(())
}
