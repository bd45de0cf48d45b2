//! Redaction: a wrapper that keeps secrets out of `Debug` output.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A secret, or a value that contains one. `Debug` prints `…` for it, so that the structs around it can derive
/// `Debug`.
#[derive(Clone, Default)]
pub(crate) struct Redacted<T>(pub(crate) T);

impl<T> Deref for Redacted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Redacted<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
