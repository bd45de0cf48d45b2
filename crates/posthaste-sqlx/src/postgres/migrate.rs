//! Migrations of an outbox in PostgreSQL, all in one transaction.

use posthaste_sql_writer::DatabaseId;
use posthaste_sql_writer::postgres::DATABASE_ID;
use sqlx::{ConnectOptions as _, Executor as _, PgConnection, Postgres, Row as _};

use super::connection::{BEGIN, Login, explain, named, server};
use crate::migrations::{MigrateDialect, Migrations, Step, Work};
use crate::{Migration, OpenError};

/// The numbered migrations of one outbox table.
pub type PgMigrations = Migrations<Postgres>;

/// Creates everything but the outbox table: its indexes, and the tables beside it.
pub(super) const INDEXES: &str =
    include_str!("../../migrations/postgres/0001_indexes_control_audit_archive.sql");

/// The oldest server that supports all statements of the store.
const OLDEST_SERVER: i32 = 130_000;

/// Lets one process at a time migrate an outbox. It is a lock of the transaction and not of the session, because
/// PgBouncer may give the next transaction another session.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('posthaste {schema}.{name}', 0));\n";

const SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS \"{schema}\";\n";

/// Gives the classic 15-column table the columns that it lacks. The table stays in place, so that its grants, triggers
/// and foreign keys stay too.
const ADOPT: &str = include_str!("../../migrations/postgres/adopt.sql");

/// What the server says about itself.
pub(crate) struct ServerInfo {
    /// True for a replica, and for a database or user whose transactions are read-only by default.
    pub(super) read_only: bool,
}

impl MigrateDialect for Postgres {
    const STEPS: &'static [Step] = &[Step {
        migration: Migration { version: 1, name: "outbox", works_with: 1 },
        table: include_str!("../../migrations/postgres/0001_table.sql"),
        rest: INDEXES,
    }];

    const CREATE_VERSIONS: &'static str = r#"CREATE TABLE IF NOT EXISTS "{table}_schema" (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  works_with integer     NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
);
"#;

    const RECORD_VERSION: &'static str =
        "INSERT INTO \"{table}_schema\" (version, name, works_with) VALUES ({values});\n";

    const RECORDED_VERSIONS: &'static str = r#"SELECT coalesce(max(version), 0)::int8, coalesce(max(works_with), 0)::int8
FROM "{table}_schema""#;

    const COLUMNS: &'static str = "SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

    const TABLES: [&'static str; 2] = ["\"{table}\"", "\"{table}_schema\""];

    const SCRIPT_HEADS: [&'static [&'static str]; 2] = [&["BEGIN;\n", LOCK, SCHEMA], &["BEGIN;\n", LOCK]];

    const COMMIT: &'static str = "COMMIT;\n";

    const ADOPT: &'static [&'static str] = &[ADOPT];

    type Server = ServerInfo;
    type Identity = (ServerInfo, DatabaseId);

    async fn open_migration(migrations: &PgMigrations, work: Work) -> Result<PgConnection, OpenError> {
        let builder = &migrations.builder;
        let mut connection =
            named(&builder.options, builder.settings.path, "posthaste migrate").connect().await?;
        connection.execute(BEGIN).await?;
        if work != Work::Check {
            migrations.run(&mut connection, LOCK).await?;
        }
        Ok(connection)
    }

    async fn read_server(connection: &mut PgConnection) -> Result<ServerInfo, OpenError> {
        let query = sqlx::query(
            "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
               current_setting('server_encoding'), current_setting('transaction_read_only')::bool",
        );
        let row = query.persistent(false).fetch_one(connection).await?;
        let (version, encoding): (i32, String) = (row.try_get(0)?, row.try_get(2)?);
        if version < OLDEST_SERVER {
            return Err(OpenError::OldServer { found: row.try_get(1)?, needed: "13" });
        }
        if encoding != "UTF8" {
            return Err(OpenError::Encoding(encoding));
        }
        Ok(ServerInfo { read_only: row.try_get(3)? })
    }

    async fn identify(
        migrations: &PgMigrations,
        connection: &mut PgConnection,
        server_info: ServerInfo,
    ) -> sqlx::Result<(ServerInfo, DatabaseId)> {
        let id = migrations.sql.scalar::<Postgres, String>(DATABASE_ID).fetch_one(connection).await?;
        Ok((server_info, DatabaseId::new(id, server(&migrations.builder.options))))
    }

    /// Creates the schema only where it is missing. IF NOT EXISTS alone would need the right to create schemas in every
    /// case.
    async fn prepare(migrations: &PgMigrations, connection: &mut PgConnection) -> sqlx::Result<()> {
        let is_missing = "SELECT to_regnamespace('\"{schema}\"') IS NULL";
        if migrations.sql.scalar::<Postgres, bool>(is_missing).fetch_one(&mut *connection).await? {
            migrations.run(connection, SCHEMA).await?;
        }
        Ok(())
    }

    fn explain(login: &Login, error: sqlx::Error) -> OpenError {
        explain(error, &server(login))
    }
}
