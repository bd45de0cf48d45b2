//! The databases, as types.

use std::fmt;

/// A database, as a type: a context of one cannot be given to a Writer of another.
pub trait Database: 'static {
    /// What a Writer says to it.
    type Statements: fmt::Debug + Send + Sync;
}
