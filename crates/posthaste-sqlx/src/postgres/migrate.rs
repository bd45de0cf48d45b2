//! Numbered migrations of one outbox table. They are counted in a table of their own, named after
//! the outbox, and never touch the migrations of the service.

use posthaste_sql_writer::DatabaseId;
use posthaste_sql_writer::postgres::DATABASE_ID;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Postgres, Row as _};

use super::connection::{ConnectionPath, Login, explain, named, server};
use crate::schema::RecordedVersions;
use crate::sql::Sql;
use crate::{Migration, OpenError, SchemaState};

/// What creates the table, which an adopted one does without, and what creates the rest.
struct Step {
    migration: Migration,
    table: &'static str,
    rest: &'static str,
}

const STEPS: [Step; 1] = [Step {
    migration: Migration { version: 1, name: "outbox", works_with: 1 },
    table: include_str!("../../migrations/postgres/0001_table.sql"),
    rest: INDEXES,
}];

/// What creates the indexes, among others.
pub(super) const INDEXES: &str = include_str!("../../migrations/postgres/0001_rest.sql");

impl Step {
    /// What takes the place of the first step's own table where there is one already.
    fn adopted_table(&self) -> &'static str {
        if self.migration.version == 1 { ADOPT } else { self.table }
    }
}

const LATEST: u32 = STEPS[STEPS.len() - 1].migration.version;

/// The oldest server that has everything the statements need.
const OLDEST_SERVER: i32 = 130_000;

/// One migration at a time, however many nodes start at once. A lock of the transaction's, because
/// PgBouncer may give the next one another session.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('posthaste {schema}.{name}', 0));\n";

const SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS \"{schema}\";\n";

const VERSIONS: &str = r#"CREATE TABLE IF NOT EXISTS "{table}_schema" (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  works_with integer     NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
);
"#;

/// Gives a table of document 003's shape the columns that it lacks, in place, so that grants, triggers
/// and foreign keys stay with it.
const ADOPT: &str = include_str!("../../migrations/postgres/adopt.sql");

/// The columns of a table by its quoted name; none if there is no such table.
const COLUMNS: &str = "SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

/// The numbered migrations of one outbox table.
#[derive(Clone, Debug)]
pub struct PgMigrations {
    options: Login,
    path: ConnectionPath,
    sql: Sql,
}

impl PgMigrations {
    pub(super) fn new(options: Login, path: ConnectionPath, sql: Sql) -> Self {
        Self { options, path, sql }
    }

    /// All migrations as one SQL text, for those who apply it with a tool of their own.
    pub fn sql(&self) -> String {
        let steps: String = STEPS.iter().map(|step| self.step_text(step, step.table)).collect();
        self.script([SCHEMA, VERSIONS], &steps)
    }

    /// The statements that [`adopt`](Self::adopt) runs: two of them write every row anew.
    pub fn adoption_sql(&self) -> String {
        let steps: String = STEPS.iter().map(|step| self.step_text(step, step.adopted_table())).collect();
        self.script([VERSIONS, ""], &steps)
    }

    /// What state the schema is in. Changes nothing.
    pub async fn check(&self) -> Result<SchemaState, OpenError> {
        self.in_transaction(async |connection| Ok(self.read_state(connection).await?.schema)).await
    }

    /// Applies what is missing, in one transaction, and answers what was applied. Creates the schema
    /// too. Safe when several processes start at once: they wait for each other.
    pub async fn apply(&self) -> Result<Vec<Migration>, OpenError> {
        self.in_transaction(async |connection| {
            let state = self.lock_and_read(connection).await?;
            self.bring_up_to_date(connection, state).await
        })
        .await
    }

    /// As [`apply`](Self::apply); a table of document 003's shape becomes an outbox first, with all
    /// its rows. Answers what was applied.
    pub async fn adopt(&self) -> Result<Vec<Migration>, OpenError> {
        self.in_transaction(async |connection| match self.lock_and_read(connection).await? {
            SchemaState::Foreign { adoptable: true, .. } => {
                self.apply_after(connection, 0, Step::adopted_table).await
            }
            state => self.bring_up_to_date(connection, state).await,
        })
        .await
    }

    /// Refuses everything but a schema that this program can work with, on a server that can serve
    /// it. Returns the server, and which database of it this is.
    pub(super) async fn expect_current(&self) -> Result<(ServerInfo, DatabaseId), OpenError> {
        self.in_transaction(async |connection| {
            let state = self.read_state(connection).await?;
            match state.schema {
                SchemaState::Current { .. } => Ok((state.server, self.read_database_id(connection).await?)),
                other => Err(other.refuse(&self.sql, LATEST)),
            }
        })
        .await
    }

    async fn read_database_id(&self, connection: &mut PgConnection) -> sqlx::Result<DatabaseId> {
        let id = self.sql.scalar::<Postgres, String>(DATABASE_ID).fetch_one(connection).await?;
        Ok(DatabaseId::new(id, server(&self.options)))
    }

    async fn lock_and_read(&self, connection: &mut PgConnection) -> Result<SchemaState, OpenError> {
        self.sql.script(LOCK).execute(&mut *connection).await?;
        Ok(self.read_state(connection).await?.schema)
    }

    async fn bring_up_to_date(
        &self,
        connection: &mut PgConnection,
        state: SchemaState,
    ) -> Result<Vec<Migration>, OpenError> {
        match state {
            SchemaState::Missing => self.apply_after(connection, 0, |step| step.table).await,
            SchemaState::Current { .. } => Ok(Vec::new()),
            SchemaState::Behind { version, .. } => {
                self.apply_after(connection, version, |step| step.table).await
            }
            unusable => Err(unusable.refuse(&self.sql, LATEST)),
        }
    }

    async fn apply_after(
        &self,
        connection: &mut PgConnection,
        version: u32,
        table: impl Fn(&Step) -> &'static str + Send,
    ) -> Result<Vec<Migration>, OpenError> {
        // IF NOT EXISTS alone would ask for the right to create schemas where nothing has to be created.
        let schema = self.sql.scalar::<Postgres, bool>("SELECT to_regnamespace('\"{schema}\"') IS NULL");
        if schema.fetch_one(&mut *connection).await? {
            self.sql.script(SCHEMA).execute(&mut *connection).await?;
        }
        self.sql.script(VERSIONS).execute(&mut *connection).await?;
        let mut applied = Vec::new();
        for step in STEPS.iter().filter(|step| step.migration.version > version) {
            self.sql.script(table(step)).execute(&mut *connection).await?;
            self.sql.script(step.rest).execute(&mut *connection).await?;
            self.sql
                .query::<Postgres>(
                    r#"INSERT INTO "{table}_schema" (version, name, works_with) VALUES ($1, $2, $3)"#,
                )
                .bind(step.migration.version.cast_signed())
                .bind(step.migration.name)
                .bind(step.migration.works_with.cast_signed())
                .execute(&mut *connection)
                .await?;
            applied.push(step.migration);
        }
        Ok(applied)
    }

    async fn read_state(&self, connection: &mut PgConnection) -> Result<State, OpenError> {
        let server = self.read_server(connection).await?;
        let columns = self.columns_of(connection, "\"{table}\"").await?;
        if columns.is_empty() {
            return Ok(State { server, schema: SchemaState::Missing });
        }
        if self.columns_of(connection, "\"{table}_schema\"").await?.is_empty() {
            return Ok(State { server, schema: SchemaState::foreign(&columns) });
        }
        let recorded = r#"SELECT max(version), max(works_with) FROM "{table}_schema""#;
        let recorded = self.sql.query::<Postgres>(recorded).fetch_one(connection).await?;
        let number =
            |column: usize| recorded.try_get::<Option<i32>, _>(column).map(|n| n.map(i32::cast_unsigned));
        let recorded = RecordedVersions { version: number(0)?, works_with: number(1)? };
        Ok(State { server, schema: SchemaState::of_version(recorded, LATEST) })
    }

    async fn read_server(&self, connection: &mut PgConnection) -> Result<ServerInfo, OpenError> {
        let query = self.sql.query::<Postgres>(
            "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
               current_setting('server_encoding'), current_setting('transaction_read_only')::bool",
        );
        let row = query.fetch_one(connection).await?;
        let (version, encoding): (i32, String) = (row.try_get(0)?, row.try_get(2)?);
        if version < OLDEST_SERVER {
            return Err(OpenError::OldServer { found: row.try_get(1)?, needed: "13" });
        }
        if encoding != "UTF8" {
            return Err(OpenError::Encoding(encoding));
        }
        Ok(ServerInfo { read_only: row.try_get(3)? })
    }

    async fn columns_of(
        &self,
        connection: &mut PgConnection,
        table: &'static str,
    ) -> sqlx::Result<Vec<String>> {
        let query = self.sql.query::<Postgres>(COLUMNS).bind(self.sql.text(table).to_string());
        let rows = query.fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    /// Runs work in a transaction on a connection of its own.
    async fn in_transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let options = named(&self.options, self.path, "posthaste migrate");
        let mut connection = options.connect().await.map_err(|error| self.explain(error))?;
        let mut tx = connection.begin().await.map_err(|error| self.explain(error))?;
        let answer = work(&mut tx).await.map_err(|error| match error {
            OpenError::Database(error) => self.explain(error),
            known => known,
        })?;
        tx.commit().await.map_err(|error| self.explain(error))?;
        let _ = connection.close().await;
        Ok(answer)
    }

    fn explain(&self, error: sqlx::Error) -> OpenError {
        explain(error, &server(&self.options))
    }

    fn script(&self, first: [&str; 2], steps: &str) -> String {
        let first = self.sql.text(&first.concat());
        format!("BEGIN;\n{}{first}{steps}COMMIT;\n", self.sql.text(LOCK))
    }

    fn step_text(&self, step: &Step, table: &str) -> String {
        let Migration { version, name, works_with } = step.migration;
        let note = format!(
            "INSERT INTO \"{{table}}_schema\" (version, name, works_with) VALUES ({version}, '{name}', {works_with});\n"
        );
        [table, step.rest, &note].map(|part| self.sql.text(part).to_string()).concat()
    }
}

struct State {
    server: ServerInfo,
    schema: SchemaState,
}

/// What a server says about itself.
pub(super) struct ServerInfo {
    /// A replica, or a database that was told so.
    pub(super) read_only: bool,
}
