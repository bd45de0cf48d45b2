//! Names of event types and aggregate types: text, or an enum of the service.

/// The aggregate type of an event without one.
pub const GLOBAL: &str = "__GLOBAL__";

/// The name of an event type. Implemented for text. Implement it for an enum to let the compiler check the names.
///
/// ```
/// use posthaste::{Event, EventType};
///
/// enum UserEvents { Created, Deleted }
///
/// impl EventType for UserEvents {
///     fn name(&self) -> &str {
///         match self {
///             UserEvents::Created => "UserCreated",
///             UserEvents::Deleted => "UserDeleted",
///         }
///     }
/// }
///
/// let event = Event::builder(UserEvents::Created).json_text("{}").build()?;
/// assert_eq!(event.event_type(), "UserCreated");
/// # let _ = UserEvents::Deleted;
/// # Ok::<(), posthaste::EventError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event type",
    note = "pass a text such as \"OrderPlaced\", or implement `EventType` for an enum"
)]
pub trait EventType {
    /// The name, as it is in the row and in routes.
    fn name(&self) -> &str;
}

/// The name of an aggregate type, in the same way as [`EventType`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an aggregate type",
    note = "pass a text such as \"Order\", or implement `AggregateType` for an enum"
)]
pub trait AggregateType {
    /// The name, as it is in the row and in routes.
    fn name(&self) -> &str;
}

macro_rules! text_is_a_name {
    ($($text:ty),*) => {$(
        impl EventType for $text {
            fn name(&self) -> &str { self }
        }
        impl AggregateType for $text {
            fn name(&self) -> &str { self }
        }
    )*};
}
text_is_a_name!(&str, String, &String, std::borrow::Cow<'_, str>);
