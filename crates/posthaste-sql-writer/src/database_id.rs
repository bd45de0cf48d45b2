//! Database identity: tells the database of an outbox from all others, so that a Writer can refuse them.
//!
//! A Writer works on pools and connections of the service, and one of them may lead to another database: another
//! tenant's, or another shard. The engine would then look for the event in a table that does not contain it. A store
//! therefore reads the identity when it is opened, and every Writer refuses a connection whose database has another
//! identity.
//!
//! On a server the identity has two parts: the time at which the outbox was created, in microseconds, and the name of
//! the database. Both are data. They are therefore the same on every node of a cluster, stay the same after a failover
//! and after a move to another server (server ids do not), and every role that may write may read them. The creation
//! time differs between outboxes that were created separately. The name differs between copies on one server, for
//! example of a template database. A copy on another server that also has the same name is not recognized as another
//! database.
//!
//! In SQLite the identity is the file. A database in memory is identified by the creation time of its outbox.

/// The identity of a database on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseId {
    id: String,
    name: String,
}

impl DatabaseId {
    /// `id` is the result of [`postgres::DATABASE_ID`](crate::postgres::DATABASE_ID) or
    /// [`mysql::DATABASE_ID`](crate::mysql::DATABASE_ID); `name` is how errors call the database.
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
