//! Builder of the foreign-table store. Opening it checks that the table exists and has the columns of its layout.

use std::sync::Arc;

use posthaste_sql_writer::TableRef;
#[cfg(feature = "mysql")]
use sqlx::mysql::MySqlConnectOptions;
#[cfg(feature = "postgres")]
use sqlx::postgres::PgConnectOptions;

use super::foreign_table::ForeignTable;
use super::server::Server;
use super::{ForeignTableStore, Layout};
use crate::{OpenError, SchemaName};

/// Opens a [`ForeignTableStore`].
#[derive(Clone, Debug)]
#[must_use = "call `connect`"]
pub struct ForeignTableStoreBuilder {
    login: Login,
    layout: Layout,
    schema: SchemaName,
    read_only: bool,
    purge: bool,
}

#[derive(Clone, Debug)]
enum Login {
    #[cfg(feature = "postgres")]
    Postgres(crate::postgres::connection::Login),
    #[cfg(feature = "mysql")]
    MySql(crate::mysql::connection::Login),
}

impl ForeignTableStore {
    /// A foreign table in a PostgreSQL database. The store holds a lock in a session of its own, so it cannot work
    /// through PgBouncer in transaction mode.
    #[cfg(feature = "postgres")]
    pub fn postgres(options: &PgConnectOptions, layout: Layout) -> ForeignTableStoreBuilder {
        let login = crate::postgres::connection::Login::new(options.clone());
        ForeignTableStoreBuilder::new(Login::Postgres(login), layout)
    }

    /// A foreign table in a MySQL or MariaDB database.
    #[cfg(feature = "mysql")]
    pub fn mysql(options: &MySqlConnectOptions, layout: Layout) -> ForeignTableStoreBuilder {
        let login = crate::mysql::connection::Login::new(options.clone());
        ForeignTableStoreBuilder::new(Login::MySql(login), layout)
    }
}

impl ForeignTableStoreBuilder {
    fn new(login: Login, layout: Layout) -> Self {
        Self { login, layout, schema: SchemaName::default(), read_only: false, purge: false }
    }

    /// The schema that contains the table, on PostgreSQL. Default: `public`.
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.schema = schema;
        self
    }

    /// Accepts a database that cannot be written, for a program that only reads; calls that write fail there. Default:
    /// such a database is refused when the store is opened.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Lets the engine delete or archive old rows as its configuration says (`Config::purge`; by default it deletes
    /// delivered rows after a week). Default: the engine leaves them, because the table belongs to another program.
    /// Operators can purge in both cases.
    pub fn purge(mut self) -> Self {
        self.purge = true;
        self
    }

    /// Opens the table. A column that is missing or has an unsuitable type is an error, which names all such columns.
    /// Nothing is changed. The lock of the table is taken by the first claim, not here.
    pub async fn connect(self) -> Result<ForeignTableStore, OpenError> {
        let problems = self.layout.problems();
        if !problems.is_empty() {
            let each = problems.iter().map(|(key, what)| format!("{key} {what}"));
            let why = each.collect::<Vec<_>>().join("; ");
            return Err(OpenError::Layout { table: self.layout.table_name().clone(), why });
        }
        let table_ref = TableRef::new(self.layout.table_name().clone());
        let (server, table_ref): (Arc<dyn Server>, _) = match self.login {
            #[cfg(feature = "postgres")]
            Login::Postgres(login) => {
                (Arc::new(super::postgres::PgServer::new(&login)), table_ref.in_schema(self.schema))
            }
            #[cfg(feature = "mysql")]
            Login::MySql(login) => (Arc::new(super::mysql::MySqlServer::new(&login)), table_ref),
        };
        let table = ForeignTable::open(server, &table_ref, &self.layout, self.read_only).await?;
        Ok(ForeignTableStore::new(table, self.purge))
    }
}
