//! Numbered migrations of one outbox table: prints, checks and applies them, and adopts a table that exists already.
//!
//! The applied versions are recorded in a table of their own, named after the outbox. The migrations of the service
//! are never touched.

use sqlx::Connection as _;

use crate::queries::Queries;
use crate::row::ReadValues as _;
use crate::schema_state::RecordedVersions;
use crate::sql::Sql;
use crate::store::builder::{BuilderDialect, StoreBuilder};
use crate::{Migration, OpenError, SchemaState};

/// How one database migrates an outbox.
pub(crate) trait MigrateDialect: BuilderDialect + Queries {
    /// All steps, oldest first.
    const STEPS: &'static [Step];

    /// Creates the table of applied versions, unless it exists.
    const CREATE_VERSIONS: &'static str;

    /// Records a step; `{values}` is replaced by its version, name and `works_with`. A printed script contains the same
    /// statement, so it takes no bound values.
    const RECORD_VERSION: &'static str;

    /// The newest recorded version and `works_with`, as 64-bit integers; 0 if no step was recorded.
    const RECORDED_VERSIONS: &'static str;

    /// The column names of a table, which is bound.
    const COLUMNS: &'static str;

    /// The names of the outbox table and of the table of versions, as [`COLUMNS`](Self::COLUMNS) takes them.
    const TABLES: [&'static str; 2];

    /// What a printed script begins with: one that creates an outbox, and one that adopts a table.
    const SCRIPT_HEADS: [&'static [&'static str]; 2];

    /// Commits what [`open_migration`](Self::open_migration) began. Empty where a statement that changes a table
    /// commits by itself.
    const COMMIT: &'static str;

    /// Takes the place of the first step's `table` when a table is adopted.
    const ADOPT: &'static [&'static str];

    /// What the server says about itself.
    type Server: Send;

    /// What a store needs to know about a database with a current schema.
    type Identity: Send;

    /// Opens a session for this work, in a transaction if the database can roll back a migration. A session that
    /// changes the schema holds a lock, so that one process at a time migrates an outbox.
    fn open_migration(
        migrations: &Migrations<Self>,
        work: Work,
    ) -> impl Future<Output = Result<Self::Connection, OpenError>> + Send;

    /// Refuses a server that cannot hold an outbox.
    fn read_server(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<Self::Server, OpenError>> + Send;

    /// Runs on a database whose schema is current.
    fn identify(
        migrations: &Migrations<Self>,
        connection: &mut Self::Connection,
        server: Self::Server,
    ) -> impl Future<Output = sqlx::Result<Self::Identity>> + Send;

    /// Runs before the first statement that creates a table.
    fn prepare(
        _migrations: &Migrations<Self>,
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        async { Ok(()) }
    }

    /// Turns the existing table into that of the first step.
    fn adopt_table(
        migrations: &Migrations<Self>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        async {
            for part in Self::ADOPT {
                migrations.run(connection, part).await?;
            }
            Ok(())
        }
    }

    /// The state of a table with these columns, beside an empty table of versions. `None` if all steps are due.
    fn unrecorded_state(_columns: &[String]) -> Option<SchemaState> {
        None
    }

    /// Explains an error to the operator, where it is known.
    fn explain(login: &Self::Login, error: sqlx::Error) -> OpenError;
}

/// The statements of one migration.
pub(crate) struct Step {
    pub(crate) migration: Migration,
    /// Creates the outbox table. An adopted table has it already.
    pub(crate) table: &'static str,
    /// Creates everything else.
    pub(crate) rest: &'static str,
}

/// What a migration session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Changes nothing.
    Check,
    Apply,
    Adopt,
}

/// The numbered migrations of one outbox table, from
/// [`StoreBuilder::migrations`](crate::StoreBuilder::migrations).
#[derive(Debug)]
pub struct Migrations<D: MigrateDialect> {
    pub(crate) builder: StoreBuilder<D>,
    pub(crate) sql: Sql,
}

impl<D: MigrateDialect> Clone for Migrations<D> {
    fn clone(&self) -> Self {
        Self { builder: self.builder.clone(), sql: self.sql.clone() }
    }
}

impl<D: MigrateDialect> StoreBuilder<D> {
    /// The migrations of this outbox, to check, print or apply separately.
    pub fn migrations(&self) -> Migrations<D> {
        Migrations { builder: self.clone(), sql: D::sql(self) }
    }
}

impl<D: MigrateDialect> Migrations<D> {
    /// All migrations as one SQL text, to be applied with another tool.
    pub fn sql(&self) -> String {
        let [head, _] = D::SCRIPT_HEADS;
        self.script(head, |step| vec![step.table])
    }

    /// The statements that [`adopt`](Self::adopt) runs. They write every row of the table again, up to three times.
    pub fn adoption_sql(&self) -> String {
        let [_, head] = D::SCRIPT_HEADS;
        self.script(head, |step| match step.migration.version {
            1 => D::ADOPT.to_vec(),
            _ => vec![step.table],
        })
    }

    /// Returns the state of the schema. Changes nothing.
    pub async fn check(&self) -> Result<SchemaState, OpenError> {
        self.run_session(Work::Check, async |connection| Ok(self.read_state(connection).await?.1)).await
    }

    /// Applies the missing migrations and returns those it applied. Several processes may call it at the same time:
    /// they wait for each other. PostgreSQL and SQLite apply all of them or none; on MySQL and MariaDB, call it again
    /// after an interruption. On PostgreSQL it also creates the schema that contains the table.
    pub async fn apply(&self) -> Result<Vec<Migration>, OpenError> {
        self.run_session(Work::Apply, async |connection| {
            let (_, state) = self.read_state(connection).await?;
            self.bring_up_to_date(connection, state).await
        })
        .await
    }

    /// Like [`apply`](Self::apply), but first turns the classic 15-column outbox table into an outbox with all its
    /// rows. No program may write to the table meanwhile.
    pub async fn adopt(&self) -> Result<Vec<Migration>, OpenError> {
        self.run_session(Work::Adopt, async |connection| match self.read_state(connection).await?.1 {
            SchemaState::Foreign { adoptable: true, .. } => {
                self.apply_after(connection, 0, Work::Adopt).await
            }
            state => self.bring_up_to_date(connection, state).await,
        })
        .await
    }

    /// Identifies the database. Refuses a schema or a server that this program cannot work with.
    pub(crate) async fn expect_current(&self) -> Result<D::Identity, OpenError> {
        self.run_session(Work::Check, async |connection| match self.read_state(connection).await? {
            (server, SchemaState::Current { .. }) => Ok(D::identify(self, connection, server).await?),
            (_, other) => Err(other.refuse(&self.sql, Self::latest())),
        })
        .await
    }

    /// Runs one script, unless this database needs none here: MySQL refuses an empty one.
    pub(crate) async fn run(&self, connection: &mut D::Connection, script: &str) -> sqlx::Result<()> {
        if script.is_empty() {
            return Ok(());
        }
        D::run_script(self.sql.script(script), connection).await
    }

    /// The columns of one of [`TABLES`](MigrateDialect::TABLES). Empty if there is no such table.
    pub(crate) async fn columns_of(
        &self,
        connection: &mut D::Connection,
        table: &str,
    ) -> sqlx::Result<Vec<String>> {
        let query = D::bind_text(self.sql.query(D::COLUMNS), self.sql.text(table).to_string());
        let rows = D::fetch_all(query, connection).await?;
        rows.iter().map(|row| Ok(row.text_at(0)?.unwrap_or_default())).collect()
    }

    fn latest() -> u32 {
        D::STEPS.last().map_or(0, |step| step.migration.version)
    }

    /// A failed session is dropped, and with it the transaction and the lock.
    async fn run_session<T>(
        &self,
        work: Work,
        run: impl AsyncFnOnce(&mut D::Connection) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let session = async {
            let mut connection = D::open_migration(self, work).await?;
            let result = run(&mut connection).await?;
            self.run(&mut connection, D::COMMIT).await?;
            let _ = connection.close().await;
            Ok(result)
        };
        session.await.map_err(|error| match error {
            OpenError::Database(error) => D::explain(&self.builder.options, error),
            known => known,
        })
    }

    async fn bring_up_to_date(
        &self,
        connection: &mut D::Connection,
        state: SchemaState,
    ) -> Result<Vec<Migration>, OpenError> {
        match state {
            SchemaState::Missing => self.apply_after(connection, 0, Work::Apply).await,
            SchemaState::Current { .. } => Ok(Vec::new()),
            SchemaState::Behind { version, .. } => self.apply_after(connection, version, Work::Apply).await,
            unusable => Err(unusable.refuse(&self.sql, Self::latest())),
        }
    }

    async fn apply_after(
        &self,
        connection: &mut D::Connection,
        version: u32,
        work: Work,
    ) -> Result<Vec<Migration>, OpenError> {
        D::prepare(self, connection).await?;
        self.run(connection, D::CREATE_VERSIONS).await?;
        let mut applied = Vec::new();
        for step in D::STEPS.iter().filter(|step| step.migration.version > version) {
            match (work, step.migration.version) {
                (Work::Adopt, 1) => D::adopt_table(self, connection).await?,
                _ => self.run(connection, step.table).await?,
            }
            self.run(connection, step.rest).await?;
            self.run(connection, &record::<D>(step)).await?;
            applied.push(step.migration);
        }
        Ok(applied)
    }

    async fn read_state(
        &self,
        connection: &mut D::Connection,
    ) -> Result<(D::Server, SchemaState), OpenError> {
        let server = D::read_server(connection).await?;
        let [table, versions] = D::TABLES;
        let columns = self.columns_of(connection, table).await?;
        let state = if columns.is_empty() {
            SchemaState::Missing
        } else if self.columns_of(connection, versions).await?.is_empty() {
            SchemaState::foreign(&columns)
        } else {
            self.read_recorded(connection, &columns).await?
        };
        Ok((server, state))
    }

    async fn read_recorded(
        &self,
        connection: &mut D::Connection,
        columns: &[String],
    ) -> sqlx::Result<SchemaState> {
        let row = D::fetch_one(self.sql.query(D::RECORDED_VERSIONS), connection).await?;
        let number = |index| Ok::<_, sqlx::Error>(u32::try_from(row.int_at(index)?).unwrap_or(u32::MAX));
        let recorded = RecordedVersions { version: number(0)?, works_with: number(1)? };
        let unrecorded = if recorded.version == 0 { D::unrecorded_state(columns) } else { None };
        Ok(unrecorded.unwrap_or_else(|| SchemaState::of_version(recorded, Self::latest())))
    }

    fn script(&self, head: &[&str], table: impl Fn(&Step) -> Vec<&'static str>) -> String {
        let mut text = head.concat() + D::CREATE_VERSIONS;
        for step in D::STEPS {
            text += &(table(step).concat() + step.rest + &record::<D>(step));
        }
        self.sql.text(&(text + D::COMMIT)).to_string()
    }
}

/// The statement that records a step.
fn record<D: MigrateDialect>(step: &Step) -> String {
    let Migration { version, name, works_with } = step.migration;
    D::RECORD_VERSION.replace("{values}", &format!("{version}, '{name}', {works_with}"))
}
