//! From a store's URL to its doors.

use std::path::Path;

use anyhow::{Context, bail};
use posthaste::Admin;
use posthaste_redis::{RedisStore, RedisStoreBuilder};
use posthaste_sqlx::mysql::MySqlMigrations;
use posthaste_sqlx::postgres::{PgMigrations, PgStoreBuilder};
use posthaste_sqlx::sqlite::SqliteMigrations;
use posthaste_sqlx::{Migration, MySqlStore, OpenError, PgStore, SchemaState, SqliteStore};
use sqlx::postgres::PgConnectOptions;

use crate::args::StoreArgs;
use crate::failure::Usage;
use crate::store_url::{KNOWN, StoreUrl};

/// Opens the operator's door, works, and closes it again: a process that ends without that leaves
/// SQLite's side files behind.
pub(crate) async fn with_admin<T>(
    args: &StoreArgs,
    work: impl AsyncFnOnce(&dyn Admin) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cannot = || cannot_be_opened(args);
    match resolve(args)? {
        StoreUrl::Postgres(options) => {
            let store = postgres_store(&options, args)?.read_only().connect().await.with_context(cannot)?;
            let answer = work(&store).await;
            store.close().await;
            answer
        }
        StoreUrl::MySql(options) => {
            let store = MySqlStore::builder(&options).table(args.table()?).read_only();
            let store = store.connect().await.with_context(cannot)?;
            let answer = work(&store).await;
            store.close().await;
            answer
        }
        StoreUrl::Sqlite(options) => {
            let store = SqliteStore::builder(&options).table(args.table()?).read_only();
            let store = store.connect().await.with_context(cannot)?;
            let answer = work(&store).await;
            store.close().await;
            answer
        }
        StoreUrl::Redis(builder) | StoreUrl::RedisCluster(builder) => {
            work(&redis_store(*builder, args).await?).await
        }
        StoreUrl::Memory => Err(no_memory().into()),
    }
}

/// The schema of a store.
pub(crate) enum Migrations {
    Postgres(PgMigrations),
    MySql(MySqlMigrations),
    Sqlite(SqliteMigrations),
}

impl Migrations {
    /// The schema's door, which opens also where there is no outbox table yet. None where there is no
    /// schema.
    pub(crate) fn of(args: &StoreArgs) -> anyhow::Result<Option<Self>> {
        Ok(Some(match resolve(args)? {
            StoreUrl::Postgres(options) => Self::Postgres(postgres_store(&options, args)?.migrations()),
            StoreUrl::MySql(options) => {
                Self::MySql(MySqlStore::builder(&options).table(args.table()?).migrations())
            }
            StoreUrl::Sqlite(options) => {
                Self::Sqlite(SqliteStore::builder(&options).table(args.table()?).migrations())
            }
            StoreUrl::Redis(_) | StoreUrl::RedisCluster(_) => return Ok(None),
            StoreUrl::Memory => return Err(no_memory().into()),
        }))
    }

    /// The same, also where there is no SQLite file yet.
    pub(crate) fn that_create(args: &StoreArgs) -> anyhow::Result<Option<Self>> {
        let StoreUrl::Sqlite(options) = resolve(args)? else { return Self::of(args) };
        if args.url.secret().contains("mode=ro") {
            let text = "a migration writes, and the store URL says mode=ro: leave that out";
            return Err(Usage::new(text).into());
        }
        expect_folder_of(options.get_filename())?;
        let options = options.create_if_missing(true);
        Ok(Some(Self::Sqlite(SqliteStore::builder(&options).table(args.table()?).migrations())))
    }

    pub(crate) fn sql(&self) -> String {
        match self {
            Self::Postgres(migrations) => migrations.sql(),
            Self::MySql(migrations) => migrations.sql(),
            Self::Sqlite(migrations) => migrations.sql(),
        }
    }

    pub(crate) fn adoption_sql(&self) -> String {
        match self {
            Self::Postgres(migrations) => migrations.adoption_sql(),
            Self::MySql(migrations) => migrations.adoption_sql(),
            Self::Sqlite(migrations) => migrations.adoption_sql(),
        }
    }

    pub(crate) async fn check(&self) -> Result<SchemaState, OpenError> {
        match self {
            Self::Postgres(migrations) => migrations.check().await,
            Self::MySql(migrations) => migrations.check().await,
            Self::Sqlite(migrations) => migrations.check().await,
        }
    }

    pub(crate) async fn apply(&self) -> Result<Vec<Migration>, OpenError> {
        match self {
            Self::Postgres(migrations) => migrations.apply().await,
            Self::MySql(migrations) => migrations.apply().await,
            Self::Sqlite(migrations) => migrations.apply().await,
        }
    }

    pub(crate) async fn adopt(&self) -> Result<Vec<Migration>, OpenError> {
        match self {
            Self::Postgres(migrations) => migrations.adopt().await,
            Self::MySql(migrations) => migrations.adopt().await,
            Self::Sqlite(migrations) => migrations.adopt().await,
        }
    }
}

/// The store that the URL names, if the other options fit it.
fn resolve(args: &StoreArgs) -> Result<StoreUrl, Usage> {
    let url = args.url.secret().parse()?;
    match (&url, &args.schema, args.pgbouncer) {
        (StoreUrl::Postgres(_), ..) | (_, None, false) => Ok(url),
        (StoreUrl::MySql(_), Some(_), _) => Err(Usage::new(
            "--schema is for PostgreSQL, and on MySQL a schema is a database: leave it out, and name the \
             database in the URL",
        )),
        (_, Some(_), _) => {
            Err(Usage::new("--schema is for PostgreSQL, and this store has no schemas: leave it out"))
        }
        (_, None, true) => {
            Err(Usage::new("--pgbouncer is for PostgreSQL, and this store is none: leave it out"))
        }
    }
}

fn postgres_store(options: &PgConnectOptions, args: &StoreArgs) -> Result<PgStoreBuilder, Usage> {
    let builder = PgStore::builder(options).table(args.table()?);
    let builder = builder.schema(args.schema.clone().unwrap_or_default());
    Ok(if args.pgbouncer { builder.pgbouncer() } else { builder })
}

/// It is never told how many shards there are: the outbox knows, and who only looks decides nothing.
async fn redis_store(builder: RedisStoreBuilder, args: &StoreArgs) -> anyhow::Result<RedisStore> {
    let builder = builder.name(args.outbox()?).read_only();
    builder.connect().await.with_context(|| cannot_be_opened(args))
}

fn cannot_be_opened(args: &StoreArgs) -> String {
    format!("the outbox in {} cannot be opened", args.url)
}

/// SQLite creates files but no folders, and would only say that it cannot open the file.
fn expect_folder_of(file: &Path) -> anyhow::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            bail!(
                "there is no folder {}: create it first, or see whether the path is right",
                folder.display()
            )
        }
        _ => Ok(()),
    }
}

fn no_memory() -> Usage {
    Usage::new(format!(
        "a store in memory ends with the process that made it, so there is nothing to look at from \
         here: name the store of a running service, such as {KNOWN}"
    ))
}
