//! Message ids for deduplication by the receiver: the event's id and a fingerprint of the message.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthaste::Delivery;
use sha2::{Digest as _, Sha256};

use crate::format::Format;

/// How many of the 32 bytes of the hash are used. Two messages are confused only if these and the event's id are
/// equal.
const FINGERPRINT_BYTES: usize = 12;

/// Returns the event's id, a colon and a fingerprint of the message: 16 letters, digits, `-` and `_`.
///
/// The id alone is not enough. Two tables that feed one stream or receiver may use the same ids, and a table may
/// contain ids that are not unique. A receiver that deduplicates by the id would then acknowledge the second event
/// without keeping it. The fingerprint covers all fields of the event that a consumer sees, the format, and
/// `target`, the subject or topic, because one event may go to two subjects of one stream. It is the same for every
/// attempt in every process, so it covers neither the number of the attempt nor the trace of the delivery.
pub(crate) fn message_id(delivery: &Delivery, format: Format, target: &str) -> String {
    let fingerprint = Fingerprint::default()
        .text(format.name())
        .text(target)
        .text(delivery.id().as_str())
        .text(delivery.event_type())
        .text(delivery.aggregate_type())
        .optional(delivery.aggregate_id())
        .optional(delivery.tenant_id())
        .optional(delivery.content_type())
        .optional(delivery.schema_version().map(|version| version.to_string()).as_deref())
        .bytes(&delivery.occurred_at().as_micros().to_be_bytes())
        .texts(delivery.headers().iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]))
        .bytes(delivery.payload());
    format!("{}:{}", delivery.id(), fingerprint.finish())
}

/// Returns the deduplication key. An operator's replay has a key of its own, so that the receiver processes it
/// again.
pub(crate) fn with_replays(message_id: &str, replays: u32) -> String {
    match replays {
        0 => message_id.to_owned(),
        _ => format!("{message_id}:r{replays}"),
    }
}

/// A hash over parts. Each part is preceded by its length, so that text moved from one part to the next changes the
/// hash.
#[derive(Default)]
struct Fingerprint(Sha256);

impl Fingerprint {
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    fn texts<'a>(self, texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        let count = self.bytes(&(texts.clone().count() as u64).to_be_bytes());
        texts.fold(count, Self::text)
    }

    /// Adds an optional text. A missing value and an empty one have different hashes.
    fn optional(self, text: Option<&str>) -> Self {
        self.texts(text.into_iter())
    }

    fn finish(self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0.finalize()[..FINGERPRINT_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use posthaste::trace::TraceContext;
    use posthaste::{EventParts, Source, Timestamp};

    use super::*;
    use crate::format::tests::{order, order_with};

    fn id_of(delivery: &Delivery) -> String {
        message_id(delivery, Format::Raw, "orders")
    }

    fn changed(change: impl Fn(&mut EventParts)) -> String {
        id_of(&order_with(change))
    }

    /// The value is fixed: if a new version computed another one, redelivered messages would be stored twice.
    #[test]
    fn redelivery_has_the_id_of_the_first_delivery_in_every_version() {
        let first = order();
        let trace = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-00000000000000ff-00", None);
        let mut again = first.clone();
        (again.attempt, again.replays, again.source, again.trace) = (7, 2, Source::Hot, trace);
        assert_eq!(id_of(&first), "0190-id:BRV57wP27Y1aZjbt");
        assert_eq!(id_of(&again), id_of(&first));
        let waited = changed(|parts| parts.available_at = Some(Timestamp::from_micros(1)));
        assert_eq!(waited, id_of(&first), "`available_at` is not part of the message");
    }

    #[test]
    fn different_events_with_the_same_id_have_different_message_ids() {
        let delivery = order();
        let mut ids = vec![
            id_of(&delivery),
            message_id(&delivery, Format::Raw, "others"),
            message_id(&delivery, Format::CloudEvents, "orders"),
            changed(|parts| parts.event_type = "OrderPlacec".into()),
            changed(|parts| parts.aggregate_type = "Other".into()),
            changed(|parts| parts.aggregate_id = None),
            changed(|parts| parts.aggregate_id = Some("".into())),
            changed(|parts| parts.tenant_id = None),
            changed(|parts| parts.content_type = Some("text/plain".into())),
            changed(|parts| parts.schema_version = Some(4)),
            changed(|parts| parts.occurred_at = Timestamp::from_micros(1)),
            changed(|parts| drop(parts.headers.insert("region".to_owned(), "us".to_owned()))),
            changed(|parts| drop(parts.headers.remove("region"))),
            changed(|parts| parts.payload = "{}".into()),
        ];
        let count = ids.len();
        assert!(ids.iter().all(|id| id.starts_with("0190-id:")), "{ids:?}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "{ids:?}");
    }

    #[test]
    fn text_moved_from_one_field_to_the_next_changes_the_message_id() {
        let split = |event_type: &str, aggregate_type: &str| {
            changed(|parts| {
                parts.event_type = event_type.into();
                parts.aggregate_type = aggregate_type.into();
            })
        };
        assert_ne!(split("ab", "c"), split("a", "bc"));
    }

    #[test]
    fn replay_has_a_deduplication_key_of_its_own() {
        assert_eq!(with_replays("1:x", 0), "1:x");
        assert_eq!(with_replays("1:x", 2), "1:x:r2");
    }
}
