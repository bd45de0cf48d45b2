//! The id of a message, by which the other side drops repeats: the event's id and a fingerprint.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthaste::Delivery;
use sha2::{Digest as _, Sha256};

use crate::format::Format;

/// Of 32. The id stands beside it, so two messages have to share that as well to be taken for one.
const FINGERPRINT_BYTES: usize = 12;

/// The event's id, a colon and a fingerprint of the message: 16 letters, digits, `-` and `_`.
///
/// The id alone is not enough. Ids repeat where two tables feed one stream or one receiver, or where a table has
/// ids that are not unique, and a side that drops repeats by the id acknowledges the second event without keeping
/// it. The fingerprint is of all that a consumer sees of the event, of the format, and of `target`, which is where
/// it goes: one event may go to two subjects of one stream. It is the same for every attempt in every process, so
/// what differs from one to the next is not in it: the number of the attempt and the delivery's trace.
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

/// What repeats are dropped by: an operator's replay is none, and has to arrive.
pub(crate) fn with_replays(message_id: &str, replays: u32) -> String {
    match replays {
        0 => message_id.to_owned(),
        _ => format!("{message_id}:r{replays}"),
    }
}

/// Each part with its length before it, so that what is moved from one part to the next is seen.
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

    /// No value is not the same as an empty one.
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

    /// The value itself is fixed: a version that computes another one stores what it sends again twice.
    #[test]
    fn redelivery_has_the_id_of_the_first_delivery_in_every_version() {
        let first = order();
        let trace = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-00000000000000ff-00", None);
        let mut again = first.clone();
        (again.attempt, again.replays, again.source, again.trace) = (7, 2, Source::Hot, trace);
        assert_eq!(id_of(&first), "0190-id:BRV57wP27Y1aZjbt");
        assert_eq!(id_of(&again), id_of(&first));
        let waited = changed(|parts| parts.available_at = Some(Timestamp::from_micros(1)));
        assert_eq!(waited, id_of(&first), "the wait is over when it is delivered");
    }

    #[test]
    fn events_with_one_id_that_differ_in_anything_have_ids_of_their_own() {
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
    fn text_that_is_moved_from_one_part_to_the_next_is_another_message() {
        let split = |event_type: &str, aggregate_type: &str| {
            changed(|parts| {
                parts.event_type = event_type.into();
                parts.aggregate_type = aggregate_type.into();
            })
        };
        assert_ne!(split("ab", "c"), split("a", "bc"));
    }

    #[test]
    fn replay_is_no_repeat() {
        assert_eq!(with_replays("1:x", 0), "1:x");
        assert_eq!(with_replays("1:x", 2), "1:x:r2");
    }
}
