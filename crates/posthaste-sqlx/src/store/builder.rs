//! Builder of a store: the options with which it is opened.

use std::fmt;

use super::StoreDialect;
use crate::TableName;
use crate::sql::Sql;

/// The options of one database.
pub(crate) trait BuilderDialect: StoreDialect {
    /// Where to log in, and as which user. Its Debug output contains no secret.
    type Login: Clone + fmt::Debug + Send + Sync;

    /// The options that only this database has.
    type Settings: Clone + fmt::Debug + Default + Send + Sync;

    /// The statements about the table of this builder.
    fn sql(builder: &StoreBuilder<Self>) -> Sql {
        Sql::new(builder.table.clone())
    }
}

/// Opens a [`SqlStore`](crate::SqlStore).
#[derive(Debug)]
#[must_use = "call `connect`"]
pub struct StoreBuilder<D: BuilderDialect> {
    pub(crate) options: D::Login,
    pub(crate) table: TableName,
    pub(crate) migrate: bool,
    pub(crate) read_only: bool,
    pub(crate) settings: D::Settings,
}

impl<D: BuilderDialect> StoreBuilder<D> {
    pub(crate) fn new(options: D::Login) -> Self {
        let (table, settings) = (TableName::default(), D::Settings::default());
        Self { options, table, migrate: false, read_only: false, settings }
    }

    /// The name of the outbox table. Default: `outbox_event`. Several outboxes can be in one database.
    pub fn table(mut self, table: TableName) -> Self {
        self.table = table;
        self
    }

    /// Applies missing migrations when the store is opened, also when many nodes start at the same time. Default: a
    /// schema that is not current is an error.
    pub fn migrate(mut self) -> Self {
        self.migrate = true;
        self
    }

    /// Accepts a database that cannot be written, a replica for example, and a user who may only read; calls that write
    /// fail there. It does not prevent writes to a database that can be written. On SQLite, the journal mode of the
    /// file stays as it is. Default: such a database is refused.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl<D: BuilderDialect> Clone for StoreBuilder<D> {
    fn clone(&self) -> Self {
        let Self { options, table, migrate, read_only, settings } = self;
        Self {
            options: options.clone(),
            table: table.clone(),
            migrate: *migrate,
            read_only: *read_only,
            settings: settings.clone(),
        }
    }
}
