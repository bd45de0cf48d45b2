//! The Writer on the service's own connections.

use std::sync::Mutex;

use posthaste::writer::{Prepared, Scope};
use posthaste::{Event, EventId, Outbox, Receipt, WriteError};
use posthaste_sql_writer::{OutboxStore, Postgres, WriterContext};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Transaction};

use crate::PgTransaction;
use crate::insert::insert;
use crate::tx_ledger::{TxLedger, lock};
use crate::writer_session::WriterSession;

/// Writes events in transactions of the service's own connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PgWriter {
    pub(crate) context: WriterContext<Postgres>,
}

impl PgWriter {
    /// A Writer for this outbox in a `PgStore` of `posthaste-sqlx`.
    pub fn new(store: &impl OutboxStore<Postgres>, outbox: &Outbox) -> Self {
        Self::from_context(store.writer_context(outbox))
    }

    /// A Writer for a service without a store, which leaves delivery to a relay: see
    /// [`WriterContext::writer_only`].
    pub fn from_context(context: WriterContext<Postgres>) -> Self {
        Self { context }
    }

    /// Inserts one event into a transaction that the service began itself. After the commit give the receipt to
    /// [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// In another database than that of the outbox the call is refused. In a savepoint (a nested [`Transaction`], or
    /// one opened by an SQL text) the receipt is only a wake-up. Outside a transaction the call does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use posthaste::Event;
    /// # use posthaste_tokio_postgres::PgWriter;
    /// # async fn run(writer: PgWriter, client: tokio_postgres::Client, event: Event) {
    /// let _ = writer.insert(&client, event).await;
    /// # }
    /// ```
    pub async fn insert<T: PgTransaction>(&self, tx: &T, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(tx, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in one statement.
    pub async fn insert_all<T: PgTransaction>(
        &self,
        tx: &T,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        let (tx, cache) = tx.parts();
        let session = WriterSession::new(&self.context, cache);
        let prepared = self.context.core().prepare(events, Scope::Transaction)?;
        Ok(insert_unowned(&session, tx, prepared).await.map_err(|error| session.refused(error))?)
    }
}

/// Applies hooks and limits and runs the INSERT. Returns the ids of the events, duplicates included.
pub(crate) async fn write(
    session: &WriterSession,
    tx: &Transaction<'_>,
    events: Vec<Event>,
    into: &Mutex<TxLedger>,
) -> Result<Vec<EventId>, WriteError> {
    // Rows may be born leased even inside a savepoint that an SQL text opened: the proof before COMMIT shows which of
    // these rows still exist.
    let prepared = session.context.core().prepare(events, Scope::Transaction)?;
    let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
    let inserted = insert(session, tx, prepared.rows()).await;
    let inserted = inserted.map_err(|error| session.refused(error))?;
    lock(into).record(prepared.written(&inserted.seqs), inserted.in_savepoint);
    Ok(ids)
}

/// Inserts rows into a transaction of the service. The driver does not know whether a savepoint is open; the INSERT
/// returns it. If one is open, the leases are removed again, because the savepoint may be rolled back without the
/// knowledge of the engine.
async fn insert_unowned(
    session: &WriterSession,
    tx: &Transaction<'_>,
    prepared: Prepared,
) -> Result<Receipt, Error> {
    let inserted = insert(session, tx, prepared.rows()).await?;
    let rows = prepared.rows().iter().zip(&inserted.seqs);
    let leased: Vec<i64> = rows.filter(|(row, _)| row.lease.is_some()).filter_map(|(_, seq)| *seq).collect();
    if leased.is_empty() || !inserted.in_savepoint {
        return Ok(prepared.written(&inserted.seqs));
    }
    let types = [Type::INT8_ARRAY];
    let unlease = session.ready(tx.client(), &session.statements().unlease, &types).await?;
    unlease.rows(tx, &[&leased], &types).await?;
    Ok(prepared.unleased().written(&inserted.seqs))
}
