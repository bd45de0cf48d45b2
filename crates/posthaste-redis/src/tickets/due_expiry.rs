//! A ticket with its expiry time, and the id of the event of that expiry.

use md5::{Digest as _, Md5};
use posthaste::{EventId, Timestamp};

/// A ticket and its expiry time, as
/// [`find_due_expiries`](super::RedisExpiry::find_due_expiries) returns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DueExpiry {
    /// The ticket. It is also the aggregate id of its events.
    pub ticket_id: String,
    /// The expiry time, in whole milliseconds.
    pub expires_at: Timestamp,
}

impl DueExpiry {
    /// A ticket that expires at this time.
    pub fn new(ticket_id: impl Into<String>, expires_at: Timestamp) -> Self {
        Self { ticket_id: ticket_id.into(), expires_at }
    }

    /// The id of the event of this expiry: the UUIDv3 of `ticket_id|expires_at`, with the time in milliseconds since
    /// 1970, as Java's `UUID.nameUUIDFromBytes` computes it. The same ticket and time always give the same id, so a
    /// repeated decision stores no second event.
    ///
    /// ```
    /// use posthaste::Timestamp;
    /// use posthaste_redis::tickets::DueExpiry;
    ///
    /// let event_id = |ticket| DueExpiry::new(ticket, Timestamp::from_micros(1_763_164_800_000_000)).event_id();
    /// assert_eq!(event_id("17"), event_id("17"));
    /// assert_ne!(event_id("17"), event_id("18"));
    /// ```
    pub fn event_id(&self) -> EventId {
        name_uuid(format!("{}|{}", self.ticket_id, epoch_ms(self.expires_at)).as_bytes())
    }

    pub(super) fn from_score(ticket_id: &[u8], score: f64) -> Self {
        // The cast saturates for scores beyond the range, which only a foreign program writes.
        let micros = (score.floor() as i64).saturating_mul(1000);
        Self::new(String::from_utf8_lossy(ticket_id), Timestamp::from_micros(micros))
    }
}

fn name_uuid(name: &[u8]) -> EventId {
    let uuid = uuid::Builder::from_md5_bytes(Md5::digest(name).into()).into_uuid();
    EventId::from(uuid.to_string())
}

/// Milliseconds since 1970, rounded down as in Java, and limited to what a score holds exactly.
pub(super) fn epoch_ms(time: Timestamp) -> i64 {
    const MAX_SCORE: i64 = 1 << 53;
    time.as_micros().div_euclid(1000).clamp(-MAX_SCORE, MAX_SCORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S1-40
    #[test]
    fn uuid_of_a_name_is_that_of_java() {
        assert_eq!(name_uuid(b"hello").as_str(), "5d41402a-bc4b-3a76-b971-9d911017c592");
        assert_eq!(name_uuid(b"").as_str(), "d41d8cd9-8f00-3204-a980-0998ecf8427e");
    }

    // S1-40
    #[test]
    fn event_id_depends_on_ticket_and_milliseconds() {
        let id_at = |micros| DueExpiry::new("t-1", Timestamp::from_micros(micros)).event_id();
        let id = id_at(1_700_000_000_123_000);
        assert_eq!(id, name_uuid(b"t-1|1700000000123"));
        assert_eq!(id, id_at(1_700_000_000_123_999), "a score has no microseconds");
        assert_ne!(id, id_at(1_700_000_000_124_000));
    }

    #[test]
    fn score_is_rounded_down_to_the_millisecond() {
        for (micros, ms) in
            [(0, 0), (999, 0), (1000, 1), (-1, -1), (i64::MAX, 1 << 53), (i64::MIN, -(1 << 53))]
        {
            assert_eq!(epoch_ms(Timestamp::from_micros(micros)), ms, "{micros}");
        }
    }
}
