//! A ticket whose time has come, and the id of the event that says so.

use md5::{Digest as _, Md5};
use posthaste::{EventId, Timestamp};

/// A ticket whose time has come, as [`find_due_expiries`](crate::RedisExpiry::find_due_expiries) answers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DueExpiry {
    /// The ticket, which is also the aggregate id of its events.
    pub ticket_id: String,
    /// When it expires, in whole milliseconds.
    pub expires_at: Timestamp,
}

impl DueExpiry {
    /// The id that the event of this expiry gets; see [`expired_event_id`].
    pub fn event_id(&self) -> EventId {
        expired_event_id(&self.ticket_id, self.expires_at)
    }

    pub(crate) fn from_score(ticket_id: &[u8], score: f64) -> Self {
        // A cast saturates, which is all that can be done with the score of a foreign program.
        let micros = (score.floor() as i64).saturating_mul(1000);
        let ticket_id = String::from_utf8_lossy(ticket_id).into_owned();
        Self { ticket_id, expires_at: Timestamp::from_micros(micros) }
    }
}

/// The id of the event that says that a ticket expired at this time: the UUIDv3 of `ticket_id|expires_at`,
/// the time in milliseconds since 1970, as Java's `UUID.nameUUIDFromBytes` makes it. The same ticket and time
/// give the same id, so that a decision that is repeated stores nothing twice.
///
/// ```
/// use posthaste::Timestamp;
/// use posthaste_redis::expired_event_id;
///
/// let expires_at = Timestamp::from_micros(1_763_164_800_000_000);
/// assert_eq!(expired_event_id("17", expires_at), expired_event_id("17", expires_at));
/// assert_ne!(expired_event_id("17", expires_at), expired_event_id("18", expires_at));
/// ```
// S1-40
pub fn expired_event_id(ticket_id: &str, expires_at: Timestamp) -> EventId {
    name_uuid(format!("{ticket_id}|{}", epoch_ms(expires_at)).as_bytes())
}

fn name_uuid(name: &[u8]) -> EventId {
    let uuid = uuid::Builder::from_md5_bytes(Md5::digest(name).into()).into_uuid();
    EventId::from(uuid.to_string())
}

/// Milliseconds since 1970, rounded down as Java does, and cut to what a score can hold exactly.
pub(crate) fn epoch_ms(time: Timestamp) -> i64 {
    const MAX_SCORE: i64 = 1 << 53;
    time.as_micros().div_euclid(1000).clamp(-MAX_SCORE, MAX_SCORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S1-40
    #[test]
    fn name_gives_the_uuid_that_java_gives() {
        assert_eq!(name_uuid(b"hello").as_str(), "5d41402a-bc4b-3a76-b971-9d911017c592");
        assert_eq!(name_uuid(b"").as_str(), "d41d8cd9-8f00-3204-a980-0998ecf8427e");
    }

    // S1-40
    #[test]
    fn id_is_of_ticket_and_milliseconds() {
        let at = Timestamp::from_micros;
        let id = expired_event_id("t-1", at(1_700_000_000_123_000));
        assert_eq!(id, name_uuid(b"t-1|1700000000123"));
        assert_eq!(id, expired_event_id("t-1", at(1_700_000_000_123_999)), "a score has no microseconds");
        assert_ne!(id, expired_event_id("t-1", at(1_700_000_000_124_000)));
    }

    #[test]
    fn score_is_the_millisecond_before() {
        for (micros, ms) in
            [(0, 0), (999, 0), (1000, 1), (-1, -1), (i64::MAX, 1 << 53), (i64::MIN, -(1 << 53))]
        {
            assert_eq!(epoch_ms(Timestamp::from_micros(micros)), ms, "{micros}");
        }
    }
}
