//! `InTransaction`: the types of rusqlite that events can be inserted into.

use posthaste::writer::Scope;
use rusqlite::{Connection, Savepoint, Transaction};

/// A transaction that the service began itself: a [`Transaction`], a [`Savepoint`], or a [`Connection`] on which the
/// service has executed a `BEGIN`.
///
/// Only the receipt of a [`Transaction`] is more than a wake-up. With a [`Savepoint`] or a [`Connection`], a savepoint
/// may be rolled back later without notice: SQLite does not report how many savepoints are open.
#[diagnostic::on_unimplemented(
    message = "an event cannot be inserted into `{Self}`: it is not a transaction of rusqlite",
    label = "not a transaction of rusqlite",
    note = "pass `&tx`, where `tx` is a `rusqlite::Transaction` or a `rusqlite::Savepoint`, or `&connection` after a \
            `BEGIN` of the service's own",
    note = "into a transaction of `SqliteWriter::begin`, write with `tx.write(event)`"
)]
pub trait InTransaction: sealed::Sealed {}

mod sealed {
    use super::{Connection, Scope};

    pub trait Sealed {
        fn connection(&self) -> &Connection;
        fn scope(&self) -> Scope;
    }
}

impl InTransaction for Transaction<'_> {}
impl sealed::Sealed for Transaction<'_> {
    fn connection(&self) -> &Connection {
        self
    }

    fn scope(&self) -> Scope {
        Scope::Transaction
    }
}

impl InTransaction for Savepoint<'_> {}
impl sealed::Sealed for Savepoint<'_> {
    fn connection(&self) -> &Connection {
        self
    }

    fn scope(&self) -> Scope {
        Scope::ForeignSavepoint
    }
}

impl InTransaction for Connection {}
impl sealed::Sealed for Connection {
    fn connection(&self) -> &Connection {
        self
    }

    fn scope(&self) -> Scope {
        Scope::ForeignSavepoint
    }
}
