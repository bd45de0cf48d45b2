//! The builder of the store, which opens a foreign table: is it there, and does it have the columns of its layout.

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
    /// A foreign table in a PostgreSQL database. It needs a session of its own, and so no PgBouncer in
    /// transaction mode.
    #[cfg(feature = "postgres")]
    pub fn postgres(options: &PgConnectOptions, layout: Layout) -> ForeignTableStoreBuilder {
        let login = crate::postgres::connection::Login(options.clone());
        ForeignTableStoreBuilder::new(Login::Postgres(login), layout)
    }

    /// A foreign table in a MySQL or MariaDB database.
    #[cfg(feature = "mysql")]
    pub fn mysql(options: &MySqlConnectOptions, layout: Layout) -> ForeignTableStoreBuilder {
        let login = crate::mysql::connection::Login(options.clone());
        ForeignTableStoreBuilder::new(Login::MySql(login), layout)
    }
}

impl ForeignTableStoreBuilder {
    fn new(login: Login, layout: Layout) -> Self {
        Self { login, layout, schema: SchemaName::default(), read_only: false, purge: false }
    }

    /// The schema that the table stands in, on PostgreSQL. Default: `public`.
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.schema = schema;
        self
    }

    /// Accepts a database that cannot be written, for those who only look; calls that write fail there. Default:
    /// such a database is refused at once.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Lets the engine delete or archive old rows as its configuration says (`Config::purge`), which by itself deletes
    /// what was delivered a week ago. Default: it leaves them, because the table is another's; operators can purge
    /// it either way.
    pub fn purge(mut self) -> Self {
        self.purge = true;
        self
    }

    /// Opens the table. A column that is missing, or of a type that does not fit, is an error that names all such
    /// columns. Nothing is changed, and the lock of the table is not taken yet: the first claim does that.
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
