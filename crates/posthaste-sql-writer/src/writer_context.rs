//! The writer context: the part of a Writer that does not depend on the driver.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use posthaste::writer::WriterCore;
use posthaste::{Limits, Receipt, WriterHook};

use crate::{Database, MySql, Postgres, SchemaName, Sqlite, TableName, TableRef, mysql, postgres, sqlite};

/// The part of a Writer that does not depend on the driver, for one outbox table: hooks, limits, the engine that rows
/// are born leased to, and the statements. Cheap to clone.
///
/// A Writer's `new` takes the context from a store: see [`OutboxStore`](crate::OutboxStore). A service that writes
/// while a relay elsewhere delivers needs no store: it makes a context with [`WriterContext::writer_only`]. Such a
/// context has no engine, so its rows are born without a lease.
pub struct WriterContext<D: Database> {
    core: WriterCore,
    statements: Arc<D::Statements>,
    /// Keeps the store alive, because the task that wakes other processes ends with the store, and a service may keep
    /// only its Writer. `None` if the store needs no such task, or without a store.
    store: Option<Arc<dyn Any + Send + Sync>>,
}

impl<D: Database> WriterContext<D> {
    /// Makes a context with these statements. For stores.
    pub fn new(core: WriterCore, statements: Arc<D::Statements>) -> Self {
        Self { core, statements, store: None }
    }

    /// The same context, which keeps `store` alive as long as it exists. For stores.
    pub fn keeping(self, store: impl Any + Send + Sync) -> Self {
        Self { store: Some(Arc::new(store)), ..self }
    }

    /// Hooks, limits and leases.
    pub fn core(&self) -> &WriterCore {
        &self.core
    }

    /// The statements.
    pub fn statements(&self) -> &D::Statements {
        &self.statements
    }

    /// Reports that the caller has committed the transaction of this receipt. The same as
    /// [`Outbox::committed`](posthaste::Outbox::committed), for a service that has no outbox because it only writes.
    pub fn committed(&self, receipt: Receipt) {
        self.core.committed(receipt);
    }
}

impl WriterContext<Postgres> {
    /// A context for a service that writes and leaves delivery to a relay elsewhere. Default: the table
    /// `outbox_event` in the schema `public`.
    pub fn writer_only() -> WriterContextBuilder<Postgres> {
        WriterContextBuilder::new(TableRef::default().in_schema(SchemaName::default()))
    }
}

impl WriterContext<MySql> {
    /// A context for a service that writes and leaves delivery to a relay elsewhere. Default: the table `outbox_event`
    /// in the database of the connection. The first write queries the version of the server.
    pub fn writer_only() -> WriterContextBuilder<MySql> {
        WriterContextBuilder::new(TableRef::default())
    }
}

impl WriterContext<Sqlite> {
    /// A context for a service that writes and leaves delivery to a relay elsewhere. Default: the table
    /// `outbox_event`.
    pub fn writer_only() -> WriterContextBuilder<Sqlite> {
        WriterContextBuilder::new(TableRef::default())
    }
}

impl<D: Database> Clone for WriterContext<D> {
    fn clone(&self) -> Self {
        let Self { core, statements, store } = self;
        Self { core: core.clone(), statements: Arc::clone(statements), store: store.clone() }
    }
}

impl<D: Database> fmt::Debug for WriterContext<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterContext")
            .field("core", &self.core)
            .field("statements", &self.statements)
            .finish()
    }
}

/// Builds a [`WriterContext`] without a store.
#[must_use = "call `build`"]
pub struct WriterContextBuilder<D> {
    table_ref: TableRef,
    hooks: Vec<Arc<dyn WriterHook>>,
    limits: Limits,
    /// Whether a connection may keep its statements prepared. Default: `true`.
    cacheable: bool,
    database: std::marker::PhantomData<D>,
}

impl<D> WriterContextBuilder<D> {
    fn new(table_ref: TableRef) -> Self {
        let database = std::marker::PhantomData;
        Self { table_ref, hooks: Vec::new(), limits: Limits::default(), cacheable: true, database }
    }

    /// The outbox table. Default: `outbox_event`.
    pub fn table(mut self, table: TableName) -> Self {
        let schema = self.table_ref.schema().cloned();
        self.table_ref = TableRef::new(table);
        match schema {
            Some(schema) => self.in_schema(schema),
            None => self,
        }
    }

    /// Adds a hook around every write.
    pub fn hook(mut self, hook: impl WriterHook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// The maximum size of a payload, in bytes. Default: 1 MiB.
    pub fn payload_bytes(mut self, bytes: usize) -> Self {
        self.limits.payload_bytes = bytes;
        self
    }

    fn in_schema(mut self, schema: SchemaName) -> Self {
        self.table_ref = self.table_ref.in_schema(schema);
        self
    }
}

impl WriterContextBuilder<Postgres> {
    /// The schema that contains the table, whatever the search path of a connection is. Default: `public`.
    pub fn schema(self, schema: SchemaName) -> Self {
        self.in_schema(schema)
    }

    /// Makes every statement safe behind a PgBouncer in transaction mode: no prepared statement outlives its
    /// transaction. Default: off.
    pub fn pgbouncer(mut self) -> Self {
        self.cacheable = false;
        self
    }

    /// Builds the context.
    pub fn build(self) -> WriterContext<Postgres> {
        let statements = postgres::Statements::new(&self.table_ref);
        let statements = if self.cacheable { statements } else { statements.uncacheable() };
        WriterContext::new(WriterCore::writer_only(self.hooks, self.limits), Arc::new(statements))
    }
}

impl WriterContextBuilder<MySql> {
    /// Builds the context.
    pub fn build(self) -> WriterContext<MySql> {
        let statements = mysql::Statements::new(&self.table_ref);
        WriterContext::new(WriterCore::writer_only(self.hooks, self.limits), Arc::new(statements))
    }
}

impl WriterContextBuilder<Sqlite> {
    /// Builds the context.
    pub fn build(self) -> WriterContext<Sqlite> {
        let statements = sqlite::Statements::new(&self.table_ref);
        WriterContext::new(WriterCore::writer_only(self.hooks, self.limits), Arc::new(statements))
    }
}

impl<D> fmt::Debug for WriterContextBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks = self.hooks.len();
        f.debug_struct("WriterContextBuilder")
            .field("table_ref", &self.table_ref)
            .field("hooks", &hooks)
            .finish()
    }
}
