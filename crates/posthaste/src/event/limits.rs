//! Limits on the size of the parts of an event.

/// Limits on what may be written. Only the limit of the payload can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest payload in bytes. Default: [`Limits::PAYLOAD_BYTES`], 1 MiB.
    pub payload_bytes: usize,
}

impl Limits {
    /// The default for the largest payload: 1 MiB.
    pub const PAYLOAD_BYTES: usize = 1024 * 1024;
    /// The longest event type, in characters.
    pub const EVENT_TYPE: usize = 128;
    /// The longest aggregate type, in characters.
    pub const AGGREGATE_TYPE: usize = 64;
    /// The longest aggregate id, in characters.
    pub const AGGREGATE_ID: usize = 128;
    /// The longest tenant id, in characters.
    pub const TENANT_ID: usize = 64;
    /// The longest topic, in characters.
    pub const TOPIC: usize = 255;
    /// The longest content type, in characters.
    pub const CONTENT_TYPE: usize = 128;
    /// The most headers.
    pub const HEADERS: usize = 64;
    /// The most bytes of all headers together, names and values.
    pub const HEADER_BYTES: usize = 16 * 1024;

    /// Sets the largest payload, in bytes. Default: [`Limits::PAYLOAD_BYTES`].
    #[must_use]
    pub fn with_payload_bytes(self, payload_bytes: usize) -> Self {
        Self { payload_bytes, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload_bytes: Self::PAYLOAD_BYTES }
    }
}
