//! The identity of a database: which one an outbox is in.
//!
//! A Writer is given pools and connections of the service's own, and one of them may lead elsewhere: to another
//! tenant's database, or to another shard. The engine would then look for the event in a table where it is
//! not. So whoever opens a store asks it which database that is, and every Writer refuses all others.
//!
//! On a server a database is known by two things together: when its outbox was made, to the microsecond, and
//! its name. Both are data, so they are the same on every node of a cluster, whoever is the primary, and after
//! a move to another server, where identifiers of servers are not; and every role that may write may read
//! them. Outboxes that were made one by one differ in the first, and copies on one server, of a template for
//! example, in the second. A copy on another server that has the same name too is not told apart.
//!
//! In SQLite a database is its file. One in memory is known by when its outbox was made.

/// A database on a server, as its outbox knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseId {
    id: String,
    name: String,
}

impl DatabaseId {
    /// What [`postgres::DATABASE_ID`](crate::postgres::DATABASE_ID) or
    /// [`mysql::DATABASE_ID`](crate::mysql::DATABASE_ID) returned, and what people call the database.
    pub fn new(id: String, name: String) -> Self {
        Self { id, name }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
