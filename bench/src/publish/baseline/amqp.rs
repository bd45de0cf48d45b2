//! Baseline for RabbitMQ, with lapin: persistent messages, confirmed by the broker.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties, PublisherConfirm};

use super::{Load, Messages, parameter, parse, window};

pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    let mut url = parse(url)?;
    let exchange = parameter(&url, "exchange").unwrap_or_default();
    let routing_key = parameter(&url, "routing_key").unwrap_or_default();
    url.set_query(None);
    let connection = Connection::connect(url.as_str(), ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let mut waiting = VecDeque::new();
    let started = Instant::now();
    for message in Messages::of(load) {
        let mut headers = FieldTable::default();
        headers.insert("key".into(), AMQPValue::LongString(message.key.into()));
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(message.id.into())
            .with_headers(headers);
        let body = load.body().as_bytes();
        let confirm = channel.basic_publish(
            exchange.as_str().into(),
            routing_key.as_str().into(),
            options,
            body,
            properties,
        );
        waiting.push_back(confirm.await?);
        if waiting.len() >= window(load) {
            acknowledged(&mut waiting).await?;
        }
    }
    while !waiting.is_empty() {
        acknowledged(&mut waiting).await?;
    }
    Ok(started.elapsed())
}

async fn acknowledged(waiting: &mut VecDeque<PublisherConfirm>) -> anyhow::Result<()> {
    if let Some(first) = waiting.pop_front() {
        anyhow::ensure!(matches!(first.await?, Confirmation::Ack(None)), "a message was not accepted");
    }
    Ok(())
}
