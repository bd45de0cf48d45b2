//! The login of a store: shown without its password, which the options of the drivers would show.

use std::fmt;
use std::ops::Deref;

/// Options of a driver that say where to log in, and as which user.
pub(crate) trait LoginOptions {
    fn user(&self) -> &str;

    /// The server and database in words, for errors and logs.
    fn server(&self) -> String;
}

#[derive(Clone)]
pub(crate) struct Login<O>(pub(crate) O);

impl<O> Login<O> {
    pub(crate) fn new(options: O) -> Self {
        Self(options)
    }
}

impl<O> Deref for Login<O> {
    type Target = O;
    fn deref(&self) -> &O {
        &self.0
    }
}

impl<O: LoginOptions> fmt::Debug for Login<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.0.user(), self.0.server())
    }
}
