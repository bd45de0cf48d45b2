//! Typed events: Rust types whose values are events.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::GLOBAL;

/// A Rust type whose values are events of one type. Usually derived:
///
/// ```
/// use posthaste::{Event, TypedEvent};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(type = "OrderPlaced", aggregate = "Order")]
/// struct OrderPlaced {
///     #[event(aggregate_id)]
///     order: u64,
///     total: u32,
/// }
///
/// let event = Event::of(&OrderPlaced { order: 17, total: 42 })?;
/// assert_eq!(event.event_type(), OrderPlaced::TYPE);
/// assert_eq!(event.aggregate_id(), Some("17"));
/// # Ok::<(), posthaste::EventError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    note = "write `#[derive(Serialize, Deserialize, Event)]` above the type, with `use posthaste::Event`"
)]
pub trait TypedEvent: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The event type.
    const TYPE: &'static str;
    /// The aggregate type.
    const AGGREGATE: &'static str = GLOBAL;
    /// The version of the payload's schema.
    const SCHEMA_VERSION: Option<u32> = None;
    /// The target in a broker, if it is not the route's own.
    const TOPIC: Option<&'static str> = None;

    /// The id of the aggregate to which this value belongs.
    fn aggregate_id(&self) -> Option<String> {
        None
    }

    /// The tenant to which this value belongs.
    fn tenant_id(&self) -> Option<String> {
        None
    }
}
