//! From a store's URL to its doors.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use posthaste::Admin;
#[cfg(feature = "relay")]
use posthaste::Store;
use posthaste_redis::{RedisStore, RedisStoreBuilder};
use posthaste_sqlx::mysql::MySqlMigrations;
use posthaste_sqlx::postgres::{PgMigrations, PgStoreBuilder};
use posthaste_sqlx::sqlite::SqliteMigrations;
use posthaste_sqlx::{
    ForeignTableStore, Layout, Migration, MySqlStore, OpenError, PgStore, SchemaState, SqliteStore,
};
use sqlx::postgres::PgConnectOptions;

use crate::failure::Usage;
use crate::store_spec::StoreSpec;
use crate::store_url::{KNOWN, StoreUrl};

/// Opens the operator's door, works, and closes it again: a process that ends without that leaves
/// SQLite's side files behind.
pub(crate) async fn with_admin<T>(
    spec: &StoreSpec,
    work: impl AsyncFnOnce(&dyn Admin) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let opened = open(spec, Purpose::Look).await?;
    let answer = work(&*opened.admin()).await;
    opened.close().await;
    answer
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Operators look, and change what they are asked to change: a replica is good enough to look at.
    Look,
    /// An engine runs on it.
    Run {
        /// Create or upgrade the table first; a missing SQLite file is created.
        migrate: bool,
    },
}

/// An open store.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    Postgres(PgStore),
    MySql(MySqlStore),
    Sqlite(SqliteStore),
    Redis(RedisStore),
    /// A foreign table.
    Layout(ForeignTableStore),
}

impl Opened {
    /// The engine's door.
    #[cfg(feature = "relay")]
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self.clone() {
            Self::Postgres(store) => Arc::new(store),
            Self::MySql(store) => Arc::new(store),
            Self::Sqlite(store) => Arc::new(store),
            Self::Redis(store) => Arc::new(store),
            Self::Layout(store) => Arc::new(store),
        }
    }

    /// What cannot be done with it, in sentences; none for a table of ours.
    #[cfg(feature = "relay")]
    pub(crate) fn limits(&self) -> Vec<&'static str> {
        match self {
            Self::Layout(store) => store.layout().limits(),
            _ => Vec::new(),
        }
    }

    /// The operator's door.
    pub(crate) fn admin(&self) -> Arc<dyn Admin> {
        match self.clone() {
            Self::Postgres(store) => Arc::new(store),
            Self::MySql(store) => Arc::new(store),
            Self::Sqlite(store) => Arc::new(store),
            Self::Redis(store) => Arc::new(store),
            Self::Layout(store) => Arc::new(store),
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Postgres(store) => store.close().await,
            Self::MySql(store) => store.close().await,
            Self::Sqlite(store) => store.close().await,
            Self::Redis(_) => {}
            Self::Layout(store) => store.close().await,
        }
    }
}

/// Opens the store that these options name.
pub(crate) async fn open(spec: &StoreSpec, purpose: Purpose) -> anyhow::Result<Opened> {
    let migrate = purpose == Purpose::Run { migrate: true };
    let look = purpose == Purpose::Look;
    let url = resolve(spec)?;
    if let Some(layout) = &spec.layout {
        return foreign_table(url, layout, spec, look).await.map(Opened::Layout);
    }
    let opened = match url {
        StoreUrl::Postgres(options) => {
            let builder = postgres_store(&options, spec)?;
            let builder = if look { builder.read_only() } else { builder };
            let builder = if migrate { builder.migrate() } else { builder };
            builder.connect().await.map(Opened::Postgres)
        }
        StoreUrl::MySql(options) => {
            let builder = MySqlStore::builder(&options).table(spec.table()?);
            let builder = if look { builder.read_only() } else { builder };
            let builder = if migrate { builder.migrate() } else { builder };
            builder.connect().await.map(Opened::MySql)
        }
        StoreUrl::Sqlite(options) => {
            let builder = SqliteStore::builder(&options.create_if_missing(migrate)).table(spec.table()?);
            let builder = if look { builder.read_only() } else { builder };
            let builder = if migrate { builder.migrate() } else { builder };
            builder.connect().await.map(Opened::Sqlite)
        }
        StoreUrl::Redis(builder) | StoreUrl::RedisCluster(builder) => {
            return redis_store(*builder, spec, look).await.map(Opened::Redis);
        }
        StoreUrl::Memory => return Err(no_memory().into()),
    };
    opened.with_context(|| cannot_be_opened(spec))
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
    pub(crate) fn of(spec: &StoreSpec) -> anyhow::Result<Option<Self>> {
        if spec.layout.is_some() {
            let text = "a layout is for a table of somebody else, which is theirs to migrate: leave it out to make a \
                        table of Posthaste's own";
            return Err(Usage::new(text).into());
        }
        Ok(Some(match resolve(spec)? {
            StoreUrl::Postgres(options) => Self::Postgres(postgres_store(&options, spec)?.migrations()),
            StoreUrl::MySql(options) => {
                Self::MySql(MySqlStore::builder(&options).table(spec.table()?).migrations())
            }
            StoreUrl::Sqlite(options) => {
                Self::Sqlite(SqliteStore::builder(&options).table(spec.table()?).migrations())
            }
            StoreUrl::Redis(_) | StoreUrl::RedisCluster(_) => return Ok(None),
            StoreUrl::Memory => return Err(no_memory().into()),
        }))
    }

    /// The same, also where there is no SQLite file yet.
    pub(crate) fn that_create(spec: &StoreSpec) -> anyhow::Result<Option<Self>> {
        let StoreUrl::Sqlite(options) = resolve(spec)? else { return Self::of(spec) };
        if spec.url.secret().contains("mode=ro") {
            let text = "a migration writes, and the store URL says mode=ro: leave that out";
            return Err(Usage::new(text).into());
        }
        expect_folder_of(options.get_filename())?;
        let options = options.create_if_missing(true);
        Ok(Some(Self::Sqlite(SqliteStore::builder(&options).table(spec.table()?).migrations())))
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

/// Whether these options can name a store at all; nobody is asked.
#[cfg(feature = "relay")]
pub(crate) fn check(spec: &StoreSpec) -> Result<(), Usage> {
    match resolve(spec)? {
        StoreUrl::Memory => Err(no_memory()),
        StoreUrl::Redis(_) | StoreUrl::RedisCluster(_) => spec.outbox().map(drop),
        StoreUrl::Postgres(_) | StoreUrl::MySql(_) | StoreUrl::Sqlite(_) => spec.table().map(drop),
    }
}

/// The store that the URL names, if the other options fit it.
fn resolve(spec: &StoreSpec) -> Result<StoreUrl, Usage> {
    let url = spec.url.secret().parse()?;
    match (&url, &spec.schema, spec.pgbouncer) {
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

/// A table that another program has made.
async fn foreign_table(
    url: StoreUrl,
    layout: &Layout,
    spec: &StoreSpec,
    look: bool,
) -> anyhow::Result<ForeignTableStore> {
    let layout = layout.clone().table(spec.table()?);
    let builder = match url {
        StoreUrl::Postgres(_) if spec.pgbouncer => {
            let text = "a layout needs a session of its own, which PgBouncer in transaction mode does not give: name \
                        the server itself in the URL, and leave out --pgbouncer";
            return Err(Usage::new(text).into());
        }
        StoreUrl::Postgres(options) => {
            ForeignTableStore::postgres(&options, layout).schema(spec.schema.clone().unwrap_or_default())
        }
        StoreUrl::MySql(options) => ForeignTableStore::mysql(&options, layout),
        _ => {
            let text =
                "--layout is for PostgreSQL, MySQL and MariaDB, and this store is none of them: leave it out";
            return Err(Usage::new(text).into());
        }
    };
    // What a relay purges stands in its configuration, whose default for such a table is to keep everything.
    let builder = if look { builder.read_only() } else { builder.purge() };
    builder.connect().await.with_context(|| cannot_be_opened(spec))
}

fn postgres_store(options: &PgConnectOptions, spec: &StoreSpec) -> Result<PgStoreBuilder, Usage> {
    let builder = PgStore::builder(options).table(spec.table()?);
    let builder = builder.schema(spec.schema.clone().unwrap_or_default());
    Ok(if spec.pgbouncer { builder.pgbouncer() } else { builder })
}

/// It is never told how many shards there are: the outbox knows, and who only looks decides nothing.
async fn redis_store(builder: RedisStoreBuilder, spec: &StoreSpec, look: bool) -> anyhow::Result<RedisStore> {
    let builder = builder.name(spec.outbox()?);
    let builder = if look { builder.read_only() } else { builder };
    builder.connect().await.with_context(|| cannot_be_opened(spec))
}

fn cannot_be_opened(spec: &StoreSpec) -> String {
    format!("the outbox in {} cannot be opened", spec.url)
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
