//! The trait that the transactions of all asynchronous SQL drivers implement.

use crate::error::{CommitError, StoreError, WriteError};
use crate::event::{Event, EventId};

/// A transaction in which events are written, whatever its driver. For code that runs on one store in production and on
/// a [`MemoryStore`](crate::MemoryStore) in tests.
///
/// How a transaction begins differs from driver to driver (from a pool, on a connection), so the caller begins it. A
/// transaction that is dropped before it ends is rolled back.
///
/// Implemented by [`MemoryTx`](crate::memory::MemoryTx), and by the transactions of `posthaste-sqlx`,
/// `posthaste-tokio-postgres`, `posthaste-sea-orm` and, for diesel-async, `posthaste-diesel`. Three kinds of
/// transaction cannot implement it:
///
/// - those of rusqlite and of diesel without async: they block their thread, and are not `Send`;
/// - those of `posthaste-redis`: its commit takes the service's connection and returns the replies of the commands.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), posthaste::BoxError> {
/// use posthaste::writer::Tx;
/// use posthaste::{BoxError, Event, MemoryStore, MemoryWriter, Outbox, Routes};
///
/// async fn create_user(mut tx: impl Tx, name: &str) -> Result<(), BoxError> {
///     tx.write(Event::json("UserCreated", &serde_json::json!({ "name": name }))?).await?;
///     tx.commit().await?;
///     Ok(())
/// }
///
/// let store = MemoryStore::new();
/// let outbox = Outbox::builder(store.clone(), Routes::new()).build()?;
/// create_user(MemoryWriter::new(&store, &outbox).begin().await?, "Ada").await?;
/// assert_eq!(store.len(), 1);
/// # Ok(()) }
/// ```
pub trait Tx: Send + Sized {
    /// Writes events in one statement and returns their ids, without those that a hook left out.
    fn write_all(
        &mut self,
        events: Vec<Event>,
    ) -> impl Future<Output = Result<Vec<EventId>, WriteError>> + Send;

    /// Writes one event and returns its id; `None` if a hook suppressed it. If the id exists already, it is returned
    /// and nothing is written.
    fn write(&mut self, event: Event) -> impl Future<Output = Result<Option<EventId>, WriteError>> + Send {
        async { Ok(self.write_all(vec![event]).await?.into_iter().next()) }
    }

    /// Commits, and hands the events to the engine of this process if it has one.
    fn commit(self) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Rolls back: none of the events is stored.
    fn rollback(self) -> impl Future<Output = Result<(), StoreError>> + Send;
}
