//! Conversion of an event into an AMQP message.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste::Delivery;

use super::settings::{MAX_SHORT_STRING_BYTES, Settings};
use crate::unsendable::Unsendable;

/// A durable queue keeps messages of this mode across a restart of the broker.
const DELIVERY_MODE_PERSISTENT: u8 = 2;

/// Headers that RabbitMQ routes by. It closes the channel if their values are not lists.
const ROUTING_HEADERS: [&str; 2] = ["CC", "BCC"];

/// A message that is ready to be sent.
#[derive(Debug)]
pub(super) struct PreparedMessage {
    /// The index of its event in the batch.
    pub(super) at: usize,
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    /// The event's id.
    pub(super) id: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) body: Bytes,
    /// The approximate size of the properties in bytes. They must fit into one frame.
    pub(super) header_bytes: usize,
}

impl Settings {
    pub(super) fn message(&self, at: usize, delivery: &Delivery) -> Result<PreparedMessage, Unsendable> {
        let exchange = self.exchange.as_ref().map(|template| template.fill(delivery)).transpose()?;
        let routing_key = self.routing_key.target(delivery)?;
        let message = self.common.format.message(delivery, "cloudEvents_");
        self.common.check_size(message.size())?;
        let id = short_string("event's id", delivery.id().as_str())?;
        let content_type = short_string("content type", &message.content_type)?;
        let mut header_bytes = 0;
        let mut headers = FieldTable::default();
        for (name, value) in &message.headers {
            if ROUTING_HEADERS.contains(&name.as_ref()) {
                return Err(Unsendable::new(format!(
                    "RabbitMQ reads the header {name} as a list of routing keys"
                )));
            }
            header_bytes += HEADER_ENTRY_BYTES + name.len() + value.len();
            headers.insert(
                short_string("name of a header", name)?,
                AMQPValue::LongString(value.as_bytes().into()),
            );
        }
        let mut properties = BasicProperties::default()
            .with_content_type(content_type)
            .with_headers(headers)
            .with_delivery_mode(DELIVERY_MODE_PERSISTENT)
            .with_message_id(id.clone())
            .with_timestamp(u64::try_from(delivery.occurred_at().as_micros() / 1_000_000).unwrap_or(0));
        // A type that is too long for the property is left out: the format also puts it into a header or the body.
        if let Ok(name) = ShortString::try_new(delivery.event_type()) {
            properties = properties.with_type(name);
        }
        Ok(PreparedMessage {
            at,
            exchange: short_string("exchange", exchange.as_deref().unwrap_or_default())?,
            routing_key: short_string("routing key", &routing_key)?,
            id,
            properties,
            body: message.body,
            header_bytes: header_bytes + OTHER_PROPERTIES_BYTES,
        })
    }
}

/// The overhead of one header in bytes: length of the name, type of the value, length of the value.
const HEADER_ENTRY_BYTES: usize = 6;
/// An upper bound for the other properties: three short strings, the timestamp, the flags and the frame overhead.
const OTHER_PROPERTIES_BYTES: usize = 3 * MAX_SHORT_STRING_BYTES + 64;

pub(super) fn short_string(what: &str, text: &str) -> Result<ShortString, Unsendable> {
    ShortString::try_new(text).map_err(|_| {
        Unsendable::new(format!(
            "the {what} has {} bytes, and at most {MAX_SHORT_STRING_BYTES} are allowed",
            text.len()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::AmqpPublisher;
    use crate::format::tests::{order, order_with};

    fn prepared(url: &str, delivery: &Delivery) -> Result<PreparedMessage, Unsendable> {
        AmqpPublisher::from_url(url).expect(url).settings.message(0, delivery)
    }

    #[test]
    fn message_is_persistent_and_has_id_type_and_time() {
        let prepared = prepared("amqp://host/?exchange=shop.{tenant_id}", &order()).expect("a message");
        assert_eq!(prepared.exchange.as_str(), "shop.acme");
        assert_eq!(prepared.routing_key.as_str(), "Order.OrderPlaced");
        let text = |text: &Option<ShortString>| text.as_ref().map(ToString::to_string);
        assert_eq!(text(prepared.properties.message_id()).as_deref(), Some("0190-id"));
        assert_eq!(text(prepared.properties.kind()).as_deref(), Some("OrderPlaced"));
        assert_eq!(text(prepared.properties.content_type()).as_deref(), Some("application/json"));
        assert_eq!(*prepared.properties.delivery_mode(), Some(2));
        assert_eq!(*prepared.properties.timestamp(), Some(1_700_000_000));
    }

    #[test]
    fn topic_of_the_event_is_the_routing_key_and_not_the_exchange() {
        let special = order_with(|parts| parts.topic = Some("special".into()));
        let prepared = prepared("amqp://host/?exchange=events", &special).expect("a message");
        assert_eq!((prepared.exchange.as_str(), prepared.routing_key.as_str()), ("events", "special"));
    }

    #[test]
    fn event_that_amqp_cannot_carry_is_refused_with_the_reason() {
        let long = "x".repeat(256);
        let with_header =
            |name: &str| order_with(|parts| parts.headers = [(name.to_owned(), String::new())].into());
        let most = |what: &str| format!("the {what} has 256 bytes, and at most 255 are allowed");
        for (delivery, reason) in [
            (order_with(|parts| parts.topic = Some(long.as_str().into())), most("routing key")),
            (order_with(|parts| parts.content_type = Some(long.as_str().into())), most("content type")),
            (with_header(&long), most("name of a header")),
            (with_header("BCC"), "RabbitMQ reads the header BCC as a list of routing keys".to_owned()),
        ] {
            let refused = prepared("amqp://host/?exchange=e", &delivery).expect_err(&reason);
            assert_eq!(refused.to_string(), reason);
        }
        let typed = order_with(|parts| {
            parts.event_type = long.as_str().into();
            parts.topic = Some("key".into());
        });
        let prepared = prepared("amqp://host/?exchange=e", &typed).expect("a message without the type");
        assert_eq!(*prepared.properties.kind(), None);
    }
}
