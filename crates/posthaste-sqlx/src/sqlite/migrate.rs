//! Migrations of an outbox in SQLite, all in one transaction.

use std::time::Instant;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Executor as _, Sqlite, SqliteConnection};

use super::connection::{BEGIN, engine_options, explain, reader_options, wait_before_retry};
use crate::migrations::{MigrateDialect, Migrations, Step, Work};
use crate::{Migration, OpenError};

/// The numbered migrations of one outbox table.
pub type SqliteMigrations = Migrations<Sqlite>;

/// Creates the tables and their indexes.
pub(super) const TABLES: &str = include_str!("../../migrations/sqlite/0001_outbox.sql");

/// Keeps the views, triggers and foreign keys of the service on the table name while the old table is renamed. Both
/// pragmas have no effect inside a transaction.
const KEEP_REFERENCES: &str = "PRAGMA foreign_keys = OFF;\nPRAGMA legacy_alter_table = ON;\n";

const RENAME_OLD_TABLE: &str = r#"ALTER TABLE "{table}" RENAME TO "{table}_adopted";
"#;

/// Copies the rows of the classic 15-column table and drops it. Leases end, because their holders have no token. A
/// number that is too small to be microseconds is taken for milliseconds or seconds.
const COPY: &str = include_str!("../../migrations/sqlite/adopt.sql");

impl MigrateDialect for Sqlite {
    const STEPS: &'static [Step] = &[Step {
        migration: Migration { version: 1, name: "outbox", works_with: 1 },
        table: TABLES,
        rest: "",
    }];

    const CREATE_VERSIONS: &'static str = r#"CREATE TABLE IF NOT EXISTS "{table}_schema" (
  version    INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  works_with INTEGER NOT NULL,
  applied_at INTEGER NOT NULL
);
"#;

    /// `applied_at` also tells two databases apart. SQLite's clock has milliseconds only, so the microseconds are
    /// random.
    const RECORD_VERSION: &'static str =
        "INSERT INTO \"{table}_schema\" (version, name, works_with, applied_at)
  VALUES ({values}, CAST(strftime('%s', 'now') AS INTEGER) * 1000000
    + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000 + abs(random() % 1000));\n";

    const RECORDED_VERSIONS: &'static str =
        r#"SELECT coalesce(max(version), 0), coalesce(max(works_with), 0) FROM "{table}_schema""#;

    // pragma_table_info would leave generated columns out.
    const COLUMNS: &'static str = "SELECT lower(name) FROM pragma_table_xinfo(?1)";

    const TABLES: [&'static str; 2] = ["{table}", "{table}_schema"];

    const SCRIPT_HEADS: [&'static [&'static str]; 2] =
        [&["BEGIN IMMEDIATE;\n"], &[KEEP_REFERENCES, "BEGIN IMMEDIATE;\n"]];

    const COMMIT: &'static str = "COMMIT;\n";

    const ADOPT: &'static [&'static str] = &[RENAME_OLD_TABLE, TABLES, COPY];

    type Server = ();
    type Identity = ();

    /// BEGIN IMMEDIATE takes the write lock, so one process at a time migrates. A check only reads: it must not turn a
    /// file without an outbox to WAL.
    async fn open_migration(
        migrations: &SqliteMigrations,
        work: Work,
    ) -> Result<SqliteConnection, OpenError> {
        let options = &migrations.builder.options;
        if work == Work::Check {
            let mut connection = connect(&reader_options(options)).await?;
            connection.execute("BEGIN").await?;
            return Ok(connection);
        }
        let mut connection = connect(&engine_options(options)).await?;
        if work == Work::Adopt {
            connection.execute(KEEP_REFERENCES).await?;
        }
        connection.execute(BEGIN).await?;
        Ok(connection)
    }

    async fn read_server(connection: &mut SqliteConnection) -> Result<(), OpenError> {
        let encoding: String = sqlx::query_scalar("PRAGMA encoding").fetch_one(connection).await?;
        if encoding == "UTF-8" { Ok(()) } else { Err(OpenError::Encoding(encoding)) }
    }

    async fn identify(_: &SqliteMigrations, _: &mut SqliteConnection, (): ()) -> sqlx::Result<()> {
        Ok(())
    }

    fn explain(options: &SqliteConnectOptions, error: sqlx::Error) -> OpenError {
        explain(error, options.get_filename())
    }
}

async fn connect(options: &SqliteConnectOptions) -> sqlx::Result<SqliteConnection> {
    let started = Instant::now();
    loop {
        match options.connect().await {
            Ok(connection) => return Ok(connection),
            Err(error) => wait_before_retry(error, started).await?,
        }
    }
}
