//! What an event can be inserted into: a connection in a transaction.

use posthaste::writer::Scope;
use rusqlite::{Connection, Savepoint, Transaction};

/// A transaction of the service's own: a [`Transaction`], a [`Savepoint`], or a [`Connection`] on which the
/// service has sent a `BEGIN`.
///
/// SQLite does not tell how many savepoints are open on a connection, and somebody may roll one back
/// unseen. So only a receipt of a [`Transaction`] is more than a wake-up.
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
