//! Optional settings of builders.

/// Calls a method of the builder if there is a value for it.
pub(super) fn set<B, T>(builder: B, value: Option<T>, call: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => call(builder, value),
        None => builder,
    }
}
