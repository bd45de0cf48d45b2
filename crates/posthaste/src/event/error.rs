//! Why an event was refused. One variant per rule.

use super::{EventId, Limits};

/// An event that breaks a rule. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No event type was given, or it is blank.
    #[error("an event needs a type: give `Event::builder` a name such as \"OrderPlaced\"")]
    MissingType,

    /// No payload was given.
    #[error("event {event_type:?} has no payload: call `json`, `json_text` or `bytes` on its builder")]
    MissingPayload {
        /// The event's type.
        event_type: String,
    },

    /// Two payloads were given, and only one of them could be written.
    #[error(
        "event {event_type:?} has two payloads: call one of `json`, `json_text` and `bytes` on its builder, once"
    )]
    TwoPayloads {
        /// The event's type.
        event_type: String,
    },

    /// A name is longer than its column.
    #[error("{field} has {chars} characters, {max} are allowed: shorten it")]
    TooLong {
        /// The field that is too long.
        field: &'static str,
        /// Its length in characters.
        chars: usize,
        /// The longest length allowed.
        max: usize,
    },

    /// A name that is given but empty.
    #[error("{field} is empty: leave it out instead")]
    Empty {
        /// The empty field.
        field: &'static str,
    },

    /// A control character, which would break logs, headers and keys downstream.
    #[error("{field} contains the control character {character:?}: remove it")]
    ControlCharacter {
        /// The field with the character.
        field: &'static str,
        /// The character itself.
        character: char,
    },

    /// An id with characters other than visible ASCII.
    #[error("event id {id:?} must be 1 to {max} visible ASCII characters without spaces", max = EventId::MAX_CHARS)]
    BadId {
        /// The id as given.
        id: String,
    },

    /// The payload is larger than allowed.
    #[error(
        "the payload has {bytes} bytes, {max} are allowed: send a reference to the data instead, \
         or raise `Limits::payload_bytes`"
    )]
    PayloadTooLarge {
        /// The payload's size.
        bytes: usize,
        /// The limit that applied.
        max: usize,
    },

    /// The payload could not be serialised.
    #[error("the payload of {event_type:?} could not be serialised to JSON")]
    Serialize {
        /// The event's type.
        event_type: String,
        /// The error of serde.
        source: serde_json::Error,
    },

    /// Text given as JSON that is not JSON.
    #[error(
        "the payload of {event_type:?} is not JSON: use `Event::bytes` with a content type for other data"
    )]
    NotJson {
        /// The event's type.
        event_type: String,
        /// Where it stops being JSON.
        source: serde_json::Error,
    },

    /// The payload could not be read as the requested type.
    #[error("the payload of event {id} ({event_type}) is not what this handler reads")]
    Deserialize {
        /// The event's id.
        id: EventId,
        /// The event's type.
        event_type: String,
        /// The error of serde.
        source: serde_json::Error,
    },

    /// A header without a name.
    #[error("a header has an empty name: name it or leave it out")]
    EmptyHeaderName,

    /// A header's name with characters other than visible ASCII.
    #[error("header name {name:?} must be visible ASCII without spaces or colons")]
    BadHeaderName {
        /// The name as given.
        name: String,
    },

    /// A header's value with a control character, which could add a second header unnoticed.
    #[error("the value of header {name:?} contains a control character: encode it")]
    BadHeaderValue {
        /// The header's name. Its value may be a secret and is not shown.
        name: String,
    },

    /// More headers than allowed.
    #[error("the event has {count} headers, {max} are allowed: move some into the payload", max = Limits::HEADERS)]
    TooManyHeaders {
        /// How many there are.
        count: usize,
    },

    /// Headers that are together larger than allowed.
    #[error(
        "the headers have {bytes} bytes together, {max} are allowed: move some into the payload",
        max = Limits::HEADER_BYTES
    )]
    HeadersTooLarge {
        /// Their size, names and values.
        bytes: usize,
    },

    /// Both ways to delay an event were used.
    #[error("`available_at` and `deliver_after` exclude each other: keep one")]
    TwoDelays,

    /// A delay of zero.
    #[error("`deliver_after` must be longer than zero: leave it out to deliver immediately")]
    ZeroDelay,

    /// An event that would be available before it happened.
    #[error("`available_at` lies before `occurred_at`: an event cannot be delivered before it occurred")]
    AvailableBeforeOccurred,
}
