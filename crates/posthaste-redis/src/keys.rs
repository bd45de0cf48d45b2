//! Names of the keys; which shard an event belongs to; `seq`, the number of a row.

use std::fmt;
use std::sync::Arc;

use posthaste::Event;

/// Bits of a `seq` for the row number inside a millisecond, and for the shard.
const ROW_BITS: u32 = 12;
const SHARD_BITS: u32 = 8;

/// Maximum number of shards.
pub(crate) const MAX_SHARDS: u16 = 1 << SHARD_BITS;

/// Name of an outbox: the first part of all its keys. Default: `outbox`.
///
/// 1 to 64 letters, digits, `_`, `-` and `.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxName(String);

impl OutboxName {
    /// Checks the name. Fails if it is empty, too long or contains another character.
    ///
    /// ```
    /// use posthaste_redis::OutboxName;
    ///
    /// assert!(OutboxName::new("tickets").is_ok());
    /// assert!(OutboxName::new("my{outbox}").is_err());
    /// ```
    pub fn new(name: &str) -> Result<Self, InvalidOutboxName> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        match (1..=64).contains(&name.len()) && name.chars().all(is_good) {
            true => Ok(Self(name.to_owned())),
            false => Err(InvalidOutboxName(name.chars().take(80).collect())),
        }
    }
}

impl Default for OutboxName {
    fn default() -> Self {
        Self("outbox".to_owned())
    }
}

impl fmt::Display for OutboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not allowed as the name of an outbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot name an outbox: use 1 to 64 letters, digits, `_`, `-` and `.`")]
pub struct InvalidOutboxName(String);

/// The keys of every shard of one outbox.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    name: OutboxName,
    shards: Arc<[Shard]>,
}

/// The keys of one shard. They share a hash tag, so that a cluster keeps them on one node.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) number: u16,
    /// `{name:number}`, the hash tag that all keys of the shard start with.
    tag: String,
    /// The full names, in the order of [`KEYS`].
    keys: [String; KEYS.len()],
}

/// Name of a key behind the tag, and its type in Redis.
pub(crate) type KeyType = (&'static str, &'static str);

/// The keys of every shard. Scripts address them by their position in this list.
const KEYS: [KeyType; 11] = [
    ("entries", "hash"),
    ("state", "hash"),
    ("arrivals", "stream"),
    ("pending", "zset"),
    ("waiting", "zset"),
    ("done", "zset"),
    ("dead", "zset"),
    ("archived", "zset"),
    ("parked", "zset"),
    ("control", "set"),
    ("audit", "stream"),
];

/// The additional keys of the scripts about tickets, behind [`KEYS`].
#[cfg(feature = "tickets")]
pub(crate) const EXPIRY_KEYS: &[KeyType] = &[
    ("expiry-due", "zset"),
    ("expiry-leases", "zset"),
    ("expiry-begun", "hash"),
    ("revoked", "zset"),
    ("expired", "hash"),
    ("expired-at", "zset"),
];

#[cfg(not(feature = "tickets"))]
const EXPIRY_KEYS: &[KeyType] = &[];

impl Keys {
    pub(crate) fn new(name: OutboxName, shards: u16) -> Self {
        let shards = (0..shards.clamp(1, MAX_SHARDS)).map(|number| Shard::new(&name, number)).collect();
        Self { name, shards }
    }

    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    pub(crate) fn count(&self) -> u16 {
        // There are at most `MAX_SHARDS`.
        self.shards.len() as u16
    }

    /// The shard that also has the settings, the paused routes and the audit of the whole outbox.
    pub(crate) fn first(&self) -> &Shard {
        &self.shards[0]
    }

    /// The shard of an aggregate.
    pub(crate) fn of_aggregate(&self, aggregate_id: &str) -> &Shard {
        &self.shards[usize::from(key_slot(aggregate_id.as_bytes()) % self.count())]
    }

    /// The shard of an event: that of its aggregate, or of its id if it has no aggregate.
    pub(crate) fn of_event(&self, event: &Event) -> &Shard {
        self.of_aggregate(event.aggregate_id().unwrap_or_else(|| event.id().as_str()))
    }

    /// The shard that assigned this `seq`.
    pub(crate) fn of_seq(&self, seq: i64) -> &Shard {
        // A `seq` that no shard assigned is found in no shard, so any of them will do.
        self.shards.get(shard_of(seq)).unwrap_or(&self.shards[0])
    }

    /// Groups the items of a request by their shards; returns the indexes of the items of each.
    pub(crate) fn group<'k>(
        &'k self,
        shards: impl Iterator<Item = &'k Shard>,
    ) -> Vec<(&'k Shard, Vec<usize>)> {
        let mut groups: Vec<_> = self.shards.iter().map(|shard| (shard, Vec::new())).collect();
        for (place, shard) in shards.enumerate() {
            groups[usize::from(shard.number)].1.push(place);
        }
        groups.retain(|(_, places)| !places.is_empty());
        groups
    }

    /// The start of a page of `shard` that continues behind `seq`: the last possible place at or before `seq`.
    pub(crate) fn page_start(&self, seq: i64, shard: u16) -> String {
        let is_behind = usize::from(shard) > shard_of(seq);
        let sid = StreamId::of_seq(seq - if is_behind { 1 << SHARD_BITS } else { 0 });
        format!("{}:", sid.sort_key())
    }

    /// The settings of the outbox: its number of shards and its layout. Only the builder reads and writes them.
    pub(crate) fn settings(&self) -> String {
        self.first().key("settings")
    }

    pub(crate) fn name(&self) -> &OutboxName {
        &self.name
    }

    /// The Pub/Sub channel on which a write wakes other processes.
    pub(crate) fn channel(&self) -> String {
        format!("{}:wake", self.name)
    }
}

fn shard_of(seq: i64) -> usize {
    (seq & ((1 << SHARD_BITS) - 1)) as usize
}

impl Shard {
    fn new(name: &OutboxName, number: u16) -> Self {
        let tag = format!("{{{name}:{number}}}");
        let keys = KEYS.map(|(key, _)| format!("{tag}:{key}"));
        Self { number, tag, keys }
    }

    /// The hash tag that puts the service's own keys into this shard.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.tag)
    }

    /// Every key with its type.
    pub(crate) fn types(&self) -> impl Iterator<Item = (String, &'static str)> {
        KEYS.iter().chain(EXPIRY_KEYS).map(|(name, holds)| (self.key(name), *holds))
    }

    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The hash of bodies.
    pub(crate) fn entries(&self) -> &str {
        &self.keys[0]
    }

    /// The stream of new events.
    pub(crate) fn arrivals(&self) -> &str {
        &self.keys[2]
    }
}

/// Id of a stream entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamId {
    /// The server's clock in milliseconds.
    pub(crate) ms: i64,
    /// Number inside that millisecond.
    pub(crate) n: i64,
}

impl StreamId {
    /// The `seq` of a row: milliseconds, 12 bits for the number inside the millisecond, 8 bits for the shard. A number
    /// of 4096 or more carries over into the milliseconds, so [`of_seq`](Self::of_seq) returns a later stream id; the
    /// shard stays right.
    pub(crate) fn seq(self, shard: u16) -> i64 {
        let row = (self.ms << ROW_BITS).saturating_add(self.n);
        (row << SHARD_BITS) | i64::from(shard)
    }

    /// The stream id that a `seq` contains.
    pub(crate) fn of_seq(seq: i64) -> Self {
        let row = seq >> SHARD_BITS;
        Self { ms: row >> ROW_BITS, n: row & ((1 << ROW_BITS) - 1) }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (ms, n) = text.split_once('-')?;
        Some(Self { ms: ms.parse().ok()?, n: n.parse().ok()? })
    }
}

impl StreamId {
    /// The stream id as a place: the form in states and indexes. The number of digits of `n` stands before `n`, so that
    /// places sort as texts.
    pub(crate) fn sort_key(self) -> String {
        let n = self.n.to_string();
        format!("{}-{}{n}", self.ms.max(0), n.len())
    }

    pub(crate) fn from_sort_key(text: &str) -> Option<Self> {
        let (ms, n) = text.split_once('-')?;
        Some(Self { ms: ms.parse().ok()?, n: n.get(1..)?.parse().ok()? })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.n)
    }
}

/// The result of `CLUSTER KEYSLOT`, so that programs in any language can find the shard of an aggregate.
fn key_slot(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|&byte| byte == b'{')? + 1;
        let length = key[open..].iter().position(|&byte| byte == b'}').filter(|&length| length > 0)?;
        Some(&key[open..open + length])
    };
    crc16(tag().unwrap_or(key)) % 16384
}

/// CRC-16 as Redis Cluster uses it (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(shards: u16) -> Keys {
        Keys::new(OutboxName::default(), shards)
    }

    // S1-04, S1-33, T14
    #[test]
    fn every_key_of_a_shard_has_its_tag() {
        for shard in keys(3).shards() {
            let tag = format!("{{outbox:{}}}", shard.number);
            assert_eq!(shard.tag(), tag);
            assert!(shard.types().all(|(key, _)| key.starts_with(&tag)));
        }
    }

    /// The expected values are from a server's `CLUSTER KEYSLOT`.
    #[test]
    fn key_slot_matches_the_cluster() {
        for (key, slot) in [("123456789", 12739), ("foo", 12182), ("{user1000}.following", 3443), ("", 0)] {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(key_slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384, "an empty tag is ignored");
    }

    #[test]
    fn seq_contains_shard_and_stream_id() {
        let keys = keys(256);
        for shard in [0, 7, 255] {
            for sid in [StreamId { ms: 1_763_300_000_123, n: 0 }, StreamId { ms: 1_763_300_000_123, n: 4000 }]
            {
                let seq = sid.seq(shard);
                assert_eq!((StreamId::of_seq(seq), keys.of_seq(seq).number), (sid, shard));
            }
        }
    }

    /// If the clock is set back, the stream continues in its last millisecond, which can get more rows than fit in 12
    /// bits.
    #[test]
    fn seq_of_a_crowded_millisecond_keeps_the_shard_and_grows() {
        let crowded = |n| StreamId { ms: 1_763_300_000_123, n }.seq(5);
        assert_eq!(keys(6).of_seq(crowded(10_000_000)).number, 5);
        assert!(crowded(4095) < crowded(4096) && crowded(4096) < crowded(10_000_000));
    }

    #[test]
    fn seq_grows_with_time_and_with_each_row() {
        let at = |ms, n, shard| StreamId { ms, n }.seq(shard);
        assert!(at(5, 0, 3) < at(5, 1, 0) && at(5, 9, 3) < at(6, 0, 0));
    }

    #[test]
    fn page_of_another_shard_starts_at_the_place_of_the_seq() {
        let keys = keys(4);
        let seq = StreamId { ms: 5, n: 2 }.seq(1);
        assert_eq!(keys.page_start(seq, 1), "5-12:");
        assert_eq!(keys.page_start(seq, 0), "5-12:", "shard 0 comes before it");
        assert_eq!(keys.page_start(seq, 3), "5-11:", "shard 3 comes after it");
        assert_eq!(keys.page_start(StreamId { ms: 5, n: 0 }.seq(0), 2), "4-44095:");
    }

    #[test]
    fn seq_that_no_shard_assigned_maps_to_the_first_shard() {
        assert_eq!(keys(1).of_seq(4711).number, 0);
        assert_eq!(keys(3).of_seq(i64::MAX).number, 0);
    }

    #[test]
    fn names_that_would_break_a_key_are_refused() {
        for name in ["", "a b", "a{b", "a:b", "ä", &"x".repeat(65)] {
            assert!(OutboxName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(OutboxName::new("Tickets_2.eu-west").unwrap().to_string(), "Tickets_2.eu-west");
    }
}
