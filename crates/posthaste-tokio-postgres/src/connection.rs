//! Connections of the service: which types are accepted, and their caches of prepared statements.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Statement, Transaction};

/// A connection that a transaction can begin on: a [`tokio_postgres::Client`], a [`PreparedClient`], or a
/// connection of a deadpool-postgres pool.
#[diagnostic::on_unimplemented(
    message = "a transaction cannot begin on `{Self}`",
    label = "not a connection of tokio-postgres",
    note = "pass `&mut client`, where the client is a `tokio_postgres::Client`, a `PreparedClient` or, with the \
            feature `deadpool`, a connection from a deadpool-postgres pool"
)]
pub trait PgConnection: sealed::Connection {}

/// A transaction of the service's own: a [`tokio_postgres::Transaction`], or that of deadpool-postgres.
#[diagnostic::on_unimplemented(
    message = "an event cannot be inserted into `{Self}`: it is not a transaction",
    label = "not a transaction of tokio-postgres",
    note = "pass `&tx`, where `tx` is a `tokio_postgres::Transaction` or, with the feature `deadpool`, a \
            `deadpool_postgres::Transaction`",
    note = "into a transaction of `PgWriter::begin`, write with `tx.write(event)`"
)]
pub trait PgTransaction: sealed::Transaction {}

/// A connection that keeps the statements of Writers prepared, for a service whose pool does not. Derefs to the
/// [`tokio_postgres::Client`].
///
/// ```no_run
/// # async fn run(writer: posthaste_tokio_postgres::PgWriter) -> Result<(), posthaste::BoxError> {
/// use posthaste_tokio_postgres::PreparedClient;
///
/// let (client, connection) = tokio_postgres::connect("host=localhost", tokio_postgres::NoTls).await?;
/// tokio::spawn(connection);
/// let mut client = PreparedClient::new(client);
/// let tx = writer.begin(&mut client).await?;
/// # tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PreparedClient {
    client: Client,
    prepared: Arc<PreparedStatements>,
}

impl PreparedClient {
    /// Wraps a connection; its cache is empty at first.
    pub fn new(client: Client) -> Self {
        Self { client, prepared: Arc::default() }
    }

    /// The connection without the cache.
    pub fn into_inner(self) -> Client {
        self.client
    }
}

impl Deref for PreparedClient {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for PreparedClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// The prepared statements of one connection, by their text. They are valid as long as the connection.
#[derive(Default)]
pub struct PreparedStatements(Mutex<HashMap<Arc<str>, Statement>>);

impl PreparedStatements {
    fn get(&self, text: &str) -> Option<Statement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned()
    }

    fn insert(&self, text: &Arc<str>, statement: &Statement) {
        let mut prepared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.insert(Arc::clone(text), statement.clone());
    }
}

impl fmt::Debug for PreparedStatements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("statements")
    }
}

/// The cache of prepared statements of a connection.
#[derive(Clone, Debug)]
pub enum StatementCache {
    /// No cache: the server parses a statement each time, in the round trip that executes it.
    Disabled,
    /// The cache of a [`PreparedClient`].
    Client(Arc<PreparedStatements>),
    /// The cache of a connection of a deadpool-postgres pool.
    #[cfg(feature = "deadpool")]
    Pool(Arc<deadpool_postgres::StatementCache>),
}

impl StatementCache {
    /// The prepared statement, or `None` without a cache. Costs a round trip only if the cache does not contain it.
    pub(crate) async fn prepare(
        &self,
        client: &Client,
        text: &Arc<str>,
        types: &[Type],
    ) -> Result<Option<Statement>, Error> {
        match self {
            Self::Disabled => Ok(None),
            Self::Client(prepared) => match prepared.get(text) {
                Some(statement) => Ok(Some(statement)),
                None => {
                    let statement = client.prepare_typed(text, types).await?;
                    prepared.insert(text, &statement);
                    Ok(Some(statement))
                }
            },
            #[cfg(feature = "deadpool")]
            Self::Pool(cache) => cache.prepare_typed(client, text, types).await.map(Some),
        }
    }
}

mod sealed {
    use super::StatementCache;

    pub trait Connection: Send {
        fn parts(&mut self) -> (&mut tokio_postgres::Client, StatementCache);
    }

    pub trait Transaction: Send + Sync {
        fn parts(&self) -> (&tokio_postgres::Transaction<'_>, StatementCache);
    }
}

impl PgConnection for Client {}
impl sealed::Connection for Client {
    fn parts(&mut self) -> (&mut Client, StatementCache) {
        (self, StatementCache::Disabled)
    }
}

impl PgConnection for PreparedClient {}
impl sealed::Connection for PreparedClient {
    fn parts(&mut self) -> (&mut Client, StatementCache) {
        (&mut self.client, StatementCache::Client(Arc::clone(&self.prepared)))
    }
}

impl PgTransaction for Transaction<'_> {}
impl sealed::Transaction for Transaction<'_> {
    fn parts(&self) -> (&Transaction<'_>, StatementCache) {
        (self, StatementCache::Disabled)
    }
}

#[cfg(feature = "deadpool")]
mod deadpool {
    use super::{Arc, Client, PgConnection, PgTransaction, StatementCache, Transaction, sealed};
    use deadpool_postgres::{ClientWrapper, Object};

    impl PgConnection for ClientWrapper {}
    impl sealed::Connection for ClientWrapper {
        fn parts(&mut self) -> (&mut Client, StatementCache) {
            let cache = Arc::clone(&self.statement_cache);
            (self, StatementCache::Pool(cache))
        }
    }

    impl PgConnection for Object {}
    impl sealed::Connection for Object {
        fn parts(&mut self) -> (&mut Client, StatementCache) {
            ClientWrapper::parts(self)
        }
    }

    impl PgTransaction for deadpool_postgres::Transaction<'_> {}
    impl sealed::Transaction for deadpool_postgres::Transaction<'_> {
        fn parts(&self) -> (&Transaction<'_>, StatementCache) {
            (self, StatementCache::Pool(Arc::clone(&self.statement_cache)))
        }
    }
}
