//! `#[derive(Event)]`: a Rust type becomes a typed event of Posthaste.
//!
//! Use it through `posthaste`, which exports it beside the trait it implements.

mod attributes;
mod expand;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Implements `posthaste::TypedEvent` for a struct or an enum that serde can write and read.
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
/// On the type, every key is optional:
///
/// | key | meaning | default |
/// |---|---|---|
/// | `type` | event type, 1 to 128 characters | the name of the Rust type |
/// | `aggregate` | aggregate type, 1 to 64 characters | `posthaste::GLOBAL` |
/// | `version` | schema version, a `u32` | none |
/// | `topic` | topic in place of the route's own | none |
///
/// On a struct's fields, at most one each: `aggregate_id` and `tenant_id`. The field implements
/// `Display`, or is an `Option` of such a type. The fields of an enum cannot be marked.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
