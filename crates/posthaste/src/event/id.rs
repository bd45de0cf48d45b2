//! Event ids, and how they are generated.

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, Mutex};

use uuid::Uuid;

use crate::mutex::lock;

/// Identifies one event everywhere: the primary key of its row, the key by which consumers recognise a redelivery, and
/// the idempotency key of the write.
///
/// Cheap to clone. An [`IdPolicy`] generates it, or the caller provides it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct EventId(Arc<str>);

impl EventId {
    /// The longest id that may be written, in characters.
    pub const MAX_CHARS: usize = 36;

    /// A time-ordered UUIDv7, the default. Random ids make an index up to three times as expensive.
    pub fn uuid_v7() -> Self {
        Self::from_uuid(Uuid::now_v7())
    }

    /// A ULID, 26 characters. Within a process each is larger than the one before.
    pub fn ulid() -> Self {
        static GENERATOR: Mutex<ulid::Generator> = Mutex::new(ulid::Generator::new());
        let mut generator = lock(&GENERATOR);
        let ulid = generator.generate().unwrap_or_else(ulid::Overflow::commit_overflow_increment);
        let mut buffer = [0; ulid::ULID_LEN];
        let text: &str = ulid.array_to_str(&mut buffer);
        Self(text.into())
    }

    /// The UUIDv3 of `name` within `namespace`. The same two give the same id, so a step that crashed and is repeated
    /// writes its event once.
    ///
    /// ```
    /// use posthaste::EventId;
    /// let namespace = uuid::Uuid::NAMESPACE_OID;
    /// let once = EventId::uuid_v3(&namespace, b"ticket-7|2026-11-15T00:00:00Z");
    /// let again = EventId::uuid_v3(&namespace, b"ticket-7|2026-11-15T00:00:00Z");
    /// assert_eq!(once, again);
    /// ```
    pub fn uuid_v3(namespace: &Uuid, name: &[u8]) -> Self {
        Self::from_uuid(Uuid::new_v3(namespace, name))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_uuid(uuid: Uuid) -> Self {
        let mut buffer = [0; uuid::fmt::Hyphenated::LENGTH];
        let text: &str = uuid.hyphenated().encode_lower(&mut buffer);
        Self(text.into())
    }
}

/// Takes any text. The rules for ids are checked when an event is built.
impl From<&str> for EventId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for EventId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&EventId> for EventId {
    fn from(id: &EventId) -> Self {
        id.clone()
    }
}

impl Borrow<str> for EventId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for EventId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for EventId {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for EventId {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the id of an event is generated if its builder got none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdPolicy {
    /// UUIDv7 as 36 characters of text. The default.
    #[default]
    UuidV7,
    /// ULID, 26 characters.
    Ulid,
}

impl IdPolicy {
    /// Generates an id.
    pub fn generate(self) -> EventId {
        match self {
            IdPolicy::UuidV7 => EventId::uuid_v7(),
            IdPolicy::Ulid => EventId::ulid(),
        }
    }
}
