//! Savepoints that hand their events to the transaction around them when they end.

use std::ops::{Deref, DerefMut};

use posthaste::writer::{Ledger, Scope};
use posthaste::{Event, EventId, StoreError, WriteError};
use sqlx::{Connection as _, Transaction};

use super::{TxDialect, expect_usable};
use crate::transaction_depth::transaction_depth;
use crate::writer::{Writer, failed};

/// A savepoint in a [`Tx`](crate::Tx) or in another savepoint. Derefs to the driver's connection. Dropped before it
/// ends, it is rolled back.
#[derive(Debug)]
#[must_use = "dropped, the savepoint is rolled back"]
pub struct Savepoint<'a, D: TxDialect> {
    // Dropped before the ledger, as in `Tx`.
    tx: Transaction<'a, D>,
    /// `OpenTx::interrupted` of the transaction around it.
    interrupted: &'a mut bool,
    /// The number of open transactions and savepoints, this one included. If the driver counts fewer, it has rolled
    /// this one back.
    depth: usize,
    parent: &'a mut Ledger,
    /// What was written in this savepoint; moves to `parent` when it is released.
    ledger: Ledger,
    writer: &'a Writer<D>,
}

impl<'a, D: TxDialect> Savepoint<'a, D> {
    pub(crate) async fn open(
        connection: &'a mut D::Connection,
        interrupted: &'a mut bool,
        parent: &'a mut Ledger,
        writer: &'a Writer<D>,
    ) -> Result<Self, StoreError> {
        let tx = connection.begin().await.map_err(failed::<D>)?;
        let depth = transaction_depth::<D>(&tx);
        Ok(Self { tx, interrupted, depth, parent, ledger: Ledger::new(), writer })
    }

    /// Writes one event, as [`Tx::write`](crate::Tx::write) does.
    pub async fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Writes events, as [`Tx::write_all`](crate::Tx::write_all) does.
    pub async fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        self.expect_usable()?;
        *self.interrupted = D::SPOILED_BY_DROP;
        let written = self.write_whole(events).await;
        *self.interrupted = false;
        written
    }

    async fn write_whole(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        D::expect_transaction(&self.writer.context, &mut self.tx).await?;
        let (ids, receipt) = self.writer.write(&mut self.tx, events, Scope::Transaction).await?;
        self.ledger.record(receipt);
        Ok(ids)
    }

    /// Opens a savepoint inside this one. See [`Tx::savepoint`](crate::Tx::savepoint).
    pub async fn savepoint(&mut self) -> Result<Savepoint<'_, D>, StoreError> {
        self.expect_usable()?;
        Savepoint::<D>::open(&mut self.tx, self.interrupted, &mut self.ledger, self.writer).await
    }

    /// Releases the savepoint: its events now belong to the transaction or savepoint around it.
    pub async fn release(mut self) -> Result<(), StoreError> {
        self.expect_usable()?;
        let ledger = std::mem::take(&mut self.ledger);
        self.tx.commit().await.map_err(failed::<D>)?;
        self.parent.absorb(ledger);
        Ok(())
    }

    /// Rolls back everything written in this savepoint.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed::<D>)
    }

    fn expect_usable(&self) -> Result<(), StoreError> {
        expect_usable::<D>(&self.tx, *self.interrupted, self.depth)
    }
}

impl<D: TxDialect> Deref for Savepoint<'_, D> {
    type Target = D::Connection;
    fn deref(&self) -> &D::Connection {
        &self.tx
    }
}

impl<D: TxDialect> DerefMut for Savepoint<'_, D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.tx
    }
}
