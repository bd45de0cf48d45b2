//! Numbered migrations of one outbox table. They are counted in a table of their own, named after
//! the outbox, and never touch the migrations of the service.

use std::time::Instant;

use posthaste::Timestamp;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use super::connection::{engine_options, explain, reader_options, wait_before_retry};
use crate::schema::RecordedVersions;
use crate::sql::Sql;
use crate::{Migration, OpenError, SchemaState};

const MIGRATIONS: [(Migration, &str); 1] =
    [(Migration { version: 1, name: "outbox", works_with: 1 }, TABLES)];

/// What creates the tables and their indexes.
pub(super) const TABLES: &str = include_str!("../../migrations/sqlite/0001_outbox.sql");

const LATEST: u32 = MIGRATIONS[MIGRATIONS.len() - 1].0.version;

const VERSIONS: &str = r#"CREATE TABLE IF NOT EXISTS "{table}_schema" (
  version    INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  works_with INTEGER NOT NULL,
  applied_at INTEGER NOT NULL
);
"#;

/// Views, triggers and foreign keys of the service go on to mean the table of this name, and not the
/// one that it is renamed to. Outside a transaction only.
const KEEP_REFERENCES: &str = "PRAGMA foreign_keys = OFF;\nPRAGMA legacy_alter_table = ON;\n";

const MAKE_ROOM: &str = r#"ALTER TABLE "{table}" RENAME TO "{table}_adopted";
"#;

/// Copies a table of document 003's shape. Its leases end: whoever held them has no token. Numbers
/// that are too small for microseconds are milliseconds or seconds.
const COPY: &str = include_str!("../../migrations/sqlite/adopt.sql");

/// The numbered migrations of one outbox table.
#[derive(Clone, Debug)]
pub struct SqliteMigrations {
    options: SqliteConnectOptions,
    sql: Sql,
}

impl SqliteMigrations {
    pub(super) fn new(options: SqliteConnectOptions, sql: Sql) -> Self {
        Self { options, sql }
    }

    /// All migrations as one SQL text, for those who apply it with a tool of their own.
    pub fn sql(&self) -> String {
        format!("BEGIN IMMEDIATE;\n{}COMMIT;\n", self.statements())
    }

    /// The same without the transaction around it.
    fn statements(&self) -> String {
        let mut text = self.sql.text(VERSIONS).to_string();
        for (migration, template) in &MIGRATIONS {
            text.push_str(&self.sql.text(template));
            text.push_str(&self.note(migration));
        }
        text
    }

    /// What state the schema is in. Changes nothing.
    pub async fn check(&self) -> Result<SchemaState, OpenError> {
        let mut connection = self.connect(&reader_options(&self.options)).await?;
        let state = read_state(&mut connection, &self.sql).await.map_err(|error| self.known(error))?;
        let _ = connection.close().await;
        Ok(state)
    }

    /// Applies what is missing, in one transaction, and answers what was applied. Safe when several
    /// processes start at once: they wait for each other.
    pub async fn apply(&self) -> Result<Vec<Migration>, OpenError> {
        let connection = self.connect(&engine_options(&self.options)).await?;
        self.change(connection, async |connection| {
            let state = read_state(connection, &self.sql).await?;
            self.bring_up_to_date(connection, state).await
        })
        .await
    }

    /// The statements that [`adopt`](Self::adopt) runs: they write every row anew.
    pub fn adoption_sql(&self) -> String {
        let migrations = self.statements();
        let (make_room, copy) = (self.sql.text(MAKE_ROOM), self.sql.text(COPY));
        format!("{KEEP_REFERENCES}BEGIN IMMEDIATE;\n{make_room}{migrations}{copy}COMMIT;\n")
    }

    /// As [`apply`](Self::apply); a table of document 003's shape becomes an outbox first, with all
    /// its rows. Answers what was applied.
    pub async fn adopt(&self) -> Result<Vec<Migration>, OpenError> {
        let mut connection = self.connect(&engine_options(&self.options)).await?;
        let prepared = self.sql.script(KEEP_REFERENCES).execute(&mut connection).await;
        prepared.map_err(|error| self.explain(error))?;
        self.change(connection, async |connection| match read_state(connection, &self.sql).await? {
            SchemaState::Foreign { adoptable: true, .. } => {
                self.sql.script(MAKE_ROOM).execute(&mut *connection).await?;
                let applied = self.apply_after(connection, 0).await?;
                self.sql.script(COPY).execute(&mut *connection).await?;
                Ok(applied)
            }
            state => self.bring_up_to_date(connection, state).await,
        })
        .await
    }

    async fn bring_up_to_date(
        &self,
        connection: &mut SqliteConnection,
        state: SchemaState,
    ) -> Result<Vec<Migration>, OpenError> {
        match state {
            SchemaState::Missing => self.apply_after(connection, 0).await,
            SchemaState::Current { .. } => Ok(Vec::new()),
            SchemaState::Behind { version, .. } => self.apply_after(connection, version).await,
            unusable => Err(unusable.refuse(&self.sql, LATEST)),
        }
    }

    /// Refuses everything but a schema that this program can work with.
    pub(super) async fn expect_current(&self) -> Result<(), OpenError> {
        match self.check().await? {
            SchemaState::Current { .. } => Ok(()),
            other => Err(other.refuse(&self.sql, LATEST)),
        }
    }

    async fn change<T>(
        &self,
        mut connection: SqliteConnection,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.map_err(|error| self.explain(error))?;
        let answer = work(&mut tx).await.map_err(|error| self.known(error))?;
        tx.commit().await.map_err(|error| self.explain(error))?;
        let _ = connection.close().await;
        Ok(answer)
    }

    async fn apply_after(
        &self,
        connection: &mut SqliteConnection,
        version: u32,
    ) -> Result<Vec<Migration>, OpenError> {
        self.sql.script(VERSIONS).execute(&mut *connection).await?;
        let mut applied = Vec::new();
        for (migration, template) in MIGRATIONS.iter().filter(|(step, _)| step.version > version) {
            self.sql.script(template).execute(&mut *connection).await?;
            self.sql
                .query(
                    r#"INSERT INTO "{table}_schema" (version, name, works_with, applied_at) VALUES (?1, ?2, ?3, ?4)"#,
                )
                .bind(migration.version)
                .bind(migration.name)
                .bind(migration.works_with)
                .bind(Timestamp::now().as_micros())
                .execute(&mut *connection)
                .await?;
            applied.push(*migration);
        }
        Ok(applied)
    }

    /// The line of a printed script that counts a migration.
    fn note(&self, migration: &Migration) -> String {
        format!(
            "INSERT INTO \"{}_schema\" (version, name, works_with, applied_at)\n  VALUES ({}, '{}', {}, CAST(strftime('%s', 'now') AS INTEGER) * 1000000);\n",
            self.sql.table(),
            migration.version,
            migration.name,
            migration.works_with
        )
    }

    async fn connect(&self, options: &SqliteConnectOptions) -> Result<SqliteConnection, OpenError> {
        let started = Instant::now();
        loop {
            match options.connect().await {
                Ok(connection) => return Ok(connection),
                Err(error) => wait_before_retry(error, started).await.map_err(|error| self.explain(error))?,
            }
        }
    }

    fn explain(&self, error: sqlx::Error) -> OpenError {
        explain(error, self.options.get_filename())
    }

    fn known(&self, error: OpenError) -> OpenError {
        match error {
            OpenError::Database(error) => self.explain(error),
            known => known,
        }
    }
}

async fn read_state(connection: &mut SqliteConnection, sql: &Sql) -> Result<SchemaState, OpenError> {
    let encoding: String = sqlx::query_scalar("PRAGMA encoding").fetch_one(&mut *connection).await?;
    if encoding != "UTF-8" {
        return Err(OpenError::Encoding(encoding));
    }
    let versions = format!("{}_schema", sql.table());
    let columns = columns_of(connection, sql.table().as_str()).await?;
    if columns.is_empty() {
        return Ok(SchemaState::Missing);
    }
    if columns_of(connection, &versions).await?.is_empty() {
        return Ok(SchemaState::foreign(&columns));
    }
    let recorded = r#"SELECT max(version), max(works_with) FROM "{table}_schema""#;
    let recorded = sql.query(recorded).fetch_one(&mut *connection).await?;
    let recorded = RecordedVersions { version: recorded.try_get(0)?, works_with: recorded.try_get(1)? };
    Ok(SchemaState::of_version(recorded, LATEST))
}

async fn columns_of(connection: &mut SqliteConnection, table: &str) -> sqlx::Result<Vec<String>> {
    // Generated columns too, which table_info leaves out.
    let rows = sqlx::query("SELECT lower(name) FROM pragma_table_xinfo(?1)")
        .bind(table)
        .fetch_all(&mut *connection)
        .await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}
