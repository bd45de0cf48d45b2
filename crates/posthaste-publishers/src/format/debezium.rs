//! What Debezium's outbox event router writes, so that its consumers go on working.

use posthaste::Delivery;

use super::Message;

/// The router itself sets `id`; the type is a header in nearly every configuration of it.
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
    fn id_and_type_are_the_headers_that_its_consumers_know() {
        let delivery = order();
        let message = Format::Debezium.message(&delivery, "ce-");
        assert_eq!(message.body, delivery.payload());
        let expected =
            [("id", "0190-id"), ("eventType", "OrderPlaced"), ("tracestate", "vendor=1"), ("region", "eu")];
        assert_eq!(headers(&message), pairs(&expected));
    }

    #[test]
    fn topic_is_that_of_the_router_unless_one_is_set() {
        assert_eq!(Format::Debezium.default_target(), Some("outbox.event.{aggregate_type}"));
        assert_eq!(Format::Raw.default_target(), None);
    }
}
