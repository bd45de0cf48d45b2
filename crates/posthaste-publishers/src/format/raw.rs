//! The raw format: the payload unchanged, all other fields in headers.

use posthaste::Delivery;

use super::Message;

/// The prefix of the format's headers.
pub(super) const HEADER_PREFIX: &str = "outbox-";

/// The header with the event's id, by which a consumer recognises a duplicate.
pub(crate) const EVENT_ID_HEADER: &str = "outbox-event-id";

pub(super) fn message(delivery: &Delivery) -> Message<'_> {
    let mut message = Message::payload(delivery);
    describe(delivery, &mut message);
    message
}

/// Adds the headers that describe the event.
pub(super) fn describe<'a>(delivery: &'a Delivery, message: &mut Message<'a>) {
    message.add(EVENT_ID_HEADER, delivery.id().as_str());
    message.add("outbox-event-type", delivery.event_type());
    message.add("outbox-aggregate-type", delivery.aggregate_type());
    message.add_some("outbox-aggregate-id", delivery.aggregate_id());
    message.add_some("outbox-tenant-id", delivery.tenant_id());
    message.add_some("outbox-schema-version", delivery.schema_version().map(|version| version.to_string()));
    message.add("outbox-occurred-at", delivery.occurred_at().to_string());
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::{headers, order, pairs};

    #[test]
    fn payload_is_the_body_and_the_rest_is_in_headers() {
        let delivery = order();
        let message = Format::Raw.message(&delivery, "ce-");
        assert_eq!(message.body, delivery.payload());
        assert_eq!(message.content_type, "application/json");
        let expected = [
            ("outbox-event-id", "0190-id"),
            ("outbox-event-type", "OrderPlaced"),
            ("outbox-aggregate-type", "Order"),
            ("outbox-aggregate-id", "o-17"),
            ("outbox-tenant-id", "acme"),
            ("outbox-schema-version", "3"),
            ("outbox-occurred-at", "2023-11-14T22:13:20.000000Z"),
            ("tracestate", "vendor=1"),
            ("region", "eu"),
        ];
        assert_eq!(headers(&message), pairs(&expected));
    }
}
