//! `#[derive(Event)]`: makes a Rust type a typed event of Posthaste.
//!
//! Use it through `posthaste`, which exports it beside the trait that it implements.

mod attributes;
mod expand;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Implements `posthaste::TypedEvent` for a struct or an enum that serde can serialize and deserialize.
///
/// ```ignore
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(type = "OrderPlaced", aggregate = "Order", version = 2, topic = "orders")]
/// struct OrderPlaced {
///     #[event(aggregate_id)]
///     order_id: u64,
///     #[event(tenant_id)]
///     tenant: Option<String>,
///     total_cents: u64,
/// }
/// ```
///
/// All keys on the type are optional:
///
/// | key | meaning | default |
/// |---|---|---|
/// | `type` | event type, 1 to 128 characters | the name of the Rust type |
/// | `aggregate` | aggregate type, 1 to 64 characters | `posthaste::GLOBAL` |
/// | `version` | schema version, a `u32` | no version |
/// | `topic` | topic that replaces the route's topic | no topic |
///
/// The fields of a struct take the marks `aggregate_id` and `tenant_id`, each on at most one field. The type of a
/// marked field implements `Display`, or is an `Option` of such a type. The fields of an enum cannot be marked.
///
/// Without a field marked `aggregate_id`, and when that field is `None`, the event has no aggregate id. On Kafka its
/// message then has no key and goes to any partition, and on Redis Streams it has no field `key`.
///
/// # Errors
///
/// An unknown or repeated key, a value that is empty or too long, and a union are compile errors that say what to
/// change.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
