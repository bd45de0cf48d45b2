//! Optional settings.

/// The builder, with a setting if there is one.
pub(super) fn set<B, T>(builder: B, value: Option<T>, call: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => call(builder, value),
        None => builder,
    }
}
