//! A business table and an outbox table, and the ways to write into them.

use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use posthaste::writer::Tx;
use posthaste::{Outbox, Store};
use posthaste_stores::OutboxRef;
use sqlx::{Database, Pool};

use crate::bench_store::{BenchTables, BenchWriter, Business, TableFill, Written};
use crate::workload::Load;

pub(crate) type Connection<S> = <<S as Statements>::Db as Database>::Connection;

/// The statements on one set of tables, and the store and the Writer of their database.
#[async_trait]
pub(crate) trait Statements: Clone + Send + Sync + 'static {
    type Db: Database;
    type Store: Store + Clone;
    type Writer: Clone + Send + Sync + 'static;
    type Tx: Tx + DerefMut<Target = Connection<Self>>;

    /// The statement that begins a writing transaction.
    const BEGIN: &'static str = "BEGIN";

    fn writer(store: &Self::Store, outbox: &Outbox) -> Self::Writer;

    async fn begin(writer: &Self::Writer, pool: &Pool<Self::Db>) -> Result<Self::Tx>;

    async fn close(store: &Self::Store);

    async fn insert_business(&self, db: &mut Connection<Self>, business: Business<'_>) -> Result<()>;

    /// Inserts an event as the Writer does, with a lease.
    async fn insert_event(&self, db: &mut Connection<Self>, business: Business<'_>) -> Result<()>;

    /// See [`BenchTables::settle_one_by_one`].
    async fn settle_one_by_one(&self, _: &Pool<Self::Db>, _: u64, _: &Load) -> Result<Option<Duration>> {
        Ok(None)
    }

    /// See [`BenchTables::fill`].
    async fn fill(&self, _: &Pool<Self::Db>, _: TableFill, _: &Load) -> Result<bool> {
        Ok(false)
    }
}

pub(crate) struct SqlTables<S: Statements> {
    pub(crate) pool: Pool<S::Db>,
    pub(crate) store: S::Store,
    pub(crate) outbox: OutboxRef,
    pub(crate) statements: S,
}

// A derived impl would require `Clone` of the database type.
impl<S: Statements> Clone for SqlTables<S> {
    fn clone(&self) -> Self {
        let Self { pool, store, outbox, statements } = self;
        Self {
            pool: pool.clone(),
            store: store.clone(),
            outbox: outbox.clone(),
            statements: statements.clone(),
        }
    }
}

impl<S: Statements> BenchTables for SqlTables<S> {
    type Writer = SqlTablesWriter<S>;

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn writer(&self, outbox: &Outbox) -> SqlTablesWriter<S> {
        self.writer_of(&self.store, outbox)
    }

    fn outbox_ref(&self) -> Option<OutboxRef> {
        Some(self.outbox.clone())
    }

    async fn business(&self, business: Business<'_>) -> Result<()> {
        let mut tx = self.pool.begin_with(S::BEGIN).await?;
        self.statements.insert_business(&mut tx, business).await?;
        Ok(tx.commit().await?)
    }

    async fn hand_written(&self, business: Business<'_>) -> Result<()> {
        let mut tx = self.pool.begin_with(S::BEGIN).await?;
        self.statements.insert_business(&mut tx, business).await?;
        self.statements.insert_event(&mut tx, business).await?;
        Ok(tx.commit().await?)
    }

    async fn settle_one_by_one(&self, events: u64, load: &Load) -> Result<Option<Duration>> {
        self.statements.settle_one_by_one(&self.pool, events, load).await
    }

    async fn fill(&self, full: TableFill, load: &Load) -> Result<bool> {
        self.statements.fill(&self.pool, full, load).await
    }
}

impl<S: Statements> SqlTables<S> {
    /// The Writer of another store on the same tables.
    pub(crate) fn writer_of(&self, store: &S::Store, outbox: &Outbox) -> SqlTablesWriter<S> {
        SqlTablesWriter { tables: self.clone(), writer: S::writer(store, outbox) }
    }
}

#[derive(Clone)]
pub(crate) struct SqlTablesWriter<S: Statements> {
    tables: SqlTables<S>,
    writer: S::Writer,
}

impl<S: Statements> BenchWriter for SqlTablesWriter<S> {
    async fn transaction(&self, Written { business, calls }: Written<'_>) -> Result<()> {
        let SqlTables { pool, statements, .. } = &self.tables;
        let mut tx = S::begin(&self.writer, pool).await?;
        if let Some(business) = business {
            statements.insert_business(&mut tx, business).await?;
        }
        for events in calls {
            tx.write_all(events).await?;
        }
        Ok(tx.commit().await?)
    }
}
