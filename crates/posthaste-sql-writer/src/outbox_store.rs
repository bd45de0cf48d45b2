//! The stores that a Writer of any driver can be made for.

use posthaste::Outbox;

use crate::{Database, WriterContext};

/// A store in the SQL database `D`, as the `new` of every driver's Writer takes it. The stores of `posthaste-sqlx`
/// implement it.
///
/// The trait keeps drivers and stores apart: a Writer on tokio-postgres does not depend on sqlx.
#[diagnostic::on_unimplemented(
    message = "this Writer cannot write to the store `{Self}`",
    label = "not a store in the database of this Writer",
    note = "pass a store of `posthaste-sqlx`: `PgStore`, `MySqlStore` or `SqliteStore`, whichever is for the \
            database that this Writer writes to",
    note = "if the store is wrapped, in a `FaultyStore` for example, pass the store inside",
    note = "a service without a store uses `from_context` and `WriterContext::writer_only`"
)]
pub trait OutboxStore<D: Database> {
    /// The context of a Writer for this outbox in this store.
    fn writer_context(&self, outbox: &Outbox) -> WriterContext<D>;
}
