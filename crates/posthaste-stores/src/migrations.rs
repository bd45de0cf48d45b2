//! Schema of an SQL store: prints, checks, creates and upgrades it.

use std::path::Path;

use posthaste_sqlx::mysql::MySqlMigrations;
use posthaste_sqlx::postgres::PgMigrations;
use posthaste_sqlx::sqlite::SqliteMigrations;
use posthaste_sqlx::{Migration, MySqlStore, OpenError, SchemaState, SqliteStore};

use crate::open::{no_memory, postgres_builder, resolve};
use crate::{InvalidStore, OpenStoreError, StoreSpec, StoreUrl};

/// The schema of an SQL store. It also works before the outbox table exists, when [`open`](crate::open()) would fail.
#[derive(Debug)]
pub struct StoreMigrations(Migrations);

#[derive(Debug)]
enum Migrations {
    // Its options are twice as large as those of the others.
    Postgres(Box<PgMigrations>),
    MySql(MySqlMigrations),
    Sqlite(SqliteMigrations),
}

impl StoreMigrations {
    /// The schema of this store; `None` if the store has no schema, like Redis.
    ///
    /// # Errors
    ///
    /// The options are invalid, or they name a foreign table.
    pub fn of(spec: &StoreSpec) -> Result<Option<Self>, InvalidStore> {
        expect_no_layout(spec)?;
        Ok(Some(Self(match resolve(spec)? {
            StoreUrl::Postgres(options) => {
                Migrations::Postgres(Box::new(postgres_builder(&options, spec)?.migrations()))
            }
            StoreUrl::MySql(options) => {
                Migrations::MySql(MySqlStore::builder(&options).table(spec.table()?).migrations())
            }
            StoreUrl::Sqlite(options) => {
                Migrations::Sqlite(SqliteStore::builder(&options).table(spec.table()?).migrations())
            }
            StoreUrl::Redis(_) | StoreUrl::RedisCluster(_) => return Ok(None),
            StoreUrl::Memory => return Err(no_memory()),
        })))
    }

    /// Like [`of`](Self::of), for a caller that creates the schema: a missing SQLite file is created too.
    ///
    /// # Errors
    ///
    /// The options are invalid, or they name a foreign table, or the folder of the SQLite file does not exist.
    pub fn that_create(spec: &StoreSpec) -> Result<Option<Self>, OpenStoreError> {
        expect_no_layout(spec)?;
        let StoreUrl::Sqlite(options) = resolve(spec)? else { return Ok(Self::of(spec)?) };
        if spec.url.expose().contains("mode=ro") {
            let text = "a migration writes, and the store URL says mode=ro: leave that out";
            return Err(InvalidStore::new(text).into());
        }
        expect_folder_of(options.get_filename())?;
        let options = options.create_if_missing(true);
        let migrations = SqliteStore::builder(&options).table(spec.table()?).migrations();
        Ok(Some(Self(Migrations::Sqlite(migrations))))
    }

    /// The statements that create the schema.
    pub fn sql(&self) -> String {
        match &self.0 {
            Migrations::Postgres(migrations) => migrations.sql(),
            Migrations::MySql(migrations) => migrations.sql(),
            Migrations::Sqlite(migrations) => migrations.sql(),
        }
    }

    /// The statements that turn the classic 15-column outbox table into one of Posthaste's own.
    pub fn adoption_sql(&self) -> String {
        match &self.0 {
            Migrations::Postgres(migrations) => migrations.adoption_sql(),
            Migrations::MySql(migrations) => migrations.adoption_sql(),
            Migrations::Sqlite(migrations) => migrations.adoption_sql(),
        }
    }

    /// Returns whether the schema exists and is current.
    ///
    /// # Errors
    ///
    /// The database cannot be reached or read.
    pub async fn check(&self) -> Result<SchemaState, OpenError> {
        match &self.0 {
            Migrations::Postgres(migrations) => migrations.check().await,
            Migrations::MySql(migrations) => migrations.check().await,
            Migrations::Sqlite(migrations) => migrations.check().await,
        }
    }

    /// Creates or upgrades the schema; returns the steps that were applied.
    ///
    /// # Errors
    ///
    /// The database cannot be reached or changed.
    pub async fn apply(&self) -> Result<Vec<Migration>, OpenError> {
        match &self.0 {
            Migrations::Postgres(migrations) => migrations.apply().await,
            Migrations::MySql(migrations) => migrations.apply().await,
            Migrations::Sqlite(migrations) => migrations.apply().await,
        }
    }

    /// Upgrades the classic 15-column outbox table of another program; returns the steps that were applied.
    ///
    /// # Errors
    ///
    /// The database cannot be reached or changed, or the table is not the classic one.
    pub async fn adopt(&self) -> Result<Vec<Migration>, OpenError> {
        match &self.0 {
            Migrations::Postgres(migrations) => migrations.adopt().await,
            Migrations::MySql(migrations) => migrations.adopt().await,
            Migrations::Sqlite(migrations) => migrations.adopt().await,
        }
    }
}

fn expect_no_layout(spec: &StoreSpec) -> Result<(), InvalidStore> {
    if spec.layout.is_none() {
        return Ok(());
    }
    let text = "a layout describes a table of another program, which that program migrates: leave it out to \
                create a table of Posthaste's own";
    Err(InvalidStore::new(text))
}

fn expect_folder_of(file: &Path) -> Result<(), OpenStoreError> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(OpenStoreError::MissingFolder(folder.to_owned()))
        }
        _ => Ok(()),
    }
}
