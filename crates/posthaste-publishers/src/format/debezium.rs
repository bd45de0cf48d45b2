//! The Debezium format: the message of Debezium's outbox event router, so that its consumers keep working.

use posthaste::Delivery;

use super::Message;

/// The router always sets `id`. Most configurations of it also put the event type into a header.
pub(super) fn message(delivery: &Delivery) -> Message<'_> {
    let mut message = Message::payload(delivery);
    message.add("id", delivery.id().as_str());
    message.add("eventType", delivery.event_type());
    message
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::{headers, order, pairs};

    #[test]
    fn id_and_type_are_headers_under_the_names_of_the_router() {
        let delivery = order();
        let message = Format::Debezium.message(&delivery, "ce-");
        assert_eq!(message.body, delivery.payload());
        let expected =
            [("id", "0190-id"), ("eventType", "OrderPlaced"), ("tracestate", "vendor=1"), ("region", "eu")];
        assert_eq!(headers(&message), pairs(&expected));
    }

    #[test]
    fn default_topic_is_that_of_the_router() {
        assert_eq!(Format::Debezium.default_target(), Some("outbox.event.{aggregate_type}"));
        assert_eq!(Format::Raw.default_target(), None);
    }
}
