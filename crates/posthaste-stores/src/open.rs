//! Opens the store that a [`StoreSpec`] names, for operators or for an engine.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use posthaste::{Admin, Store};
use posthaste_redis::{RedisStore, RedisStoreBuilder};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_sqlx::{ForeignTableStore, Layout, MySqlStore, OpenError, PgStore, SqliteStore};
use sqlx::postgres::PgConnectOptions;

use crate::{InvalidStore, KNOWN_URLS, OpenStoreError, StoreSpec, StoreUrl};

/// The purpose for which a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// For operators' tools, which read and change rows. A read replica is accepted too; changes fail there.
    Look,
    /// For an engine, which claims and settles. Made by [`Purpose::run`].
    #[non_exhaustive]
    Run {
        /// Whether the table is created or upgraded first. A missing SQLite file is created then.
        migrate: bool,
    },
}

impl Purpose {
    /// For an engine. With `migrate`, the table is created or upgraded first, and a missing SQLite file is created.
    pub fn run(migrate: bool) -> Self {
        Self::Run { migrate }
    }
}

/// An open store of any kind.
pub struct OpenStore {
    /// The same store as `admin`, as engines use it.
    store: Arc<dyn Store>,
    admin: Arc<dyn Admin>,
    /// Empty unless the store is a foreign table.
    limits: Vec<&'static str>,
    /// Closes the pools of the concrete store, which the two trait objects cannot do.
    close: Box<dyn FnOnce() -> Closing + Send + Sync>,
}

type Closing = Pin<Box<dyn Future<Output = ()> + Send>>;

impl OpenStore {
    fn new<S, F>(store: S, close: impl FnOnce(S) -> F + Send + Sync + 'static) -> Self
    where
        S: Store + Admin + Clone + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            store: Arc::new(store.clone()),
            admin: Arc::new(store.clone()),
            limits: Vec::new(),
            close: Box::new(move || Box::pin(close(store))),
        }
    }

    /// The store, for an engine.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// The store, for operators' tools.
    pub fn admin(&self) -> Arc<dyn Admin> {
        Arc::clone(&self.admin)
    }

    /// One sentence for each thing that a foreign table cannot do; empty for a table of Posthaste's own.
    pub fn limits(&self) -> &[&'static str] {
        &self.limits
    }

    /// Closes all connections. A process that ends without this call leaves SQLite's `-wal` and `-shm` files behind.
    pub async fn close(self) {
        (self.close)().await;
    }
}

impl fmt::Debug for OpenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStore").field("admin", &self.admin).finish_non_exhaustive()
    }
}

/// Opens the store that these options name.
///
/// # Errors
///
/// The options are invalid, or the store cannot be reached or used; the error says what to do.
pub async fn open(spec: &StoreSpec, purpose: Purpose) -> Result<OpenStore, OpenStoreError> {
    let migrate = purpose == Purpose::Run { migrate: true };
    let look = purpose == Purpose::Look;
    let url = resolve(spec)?;
    if let Some(layout) = &spec.layout {
        return foreign_table(url, layout, spec, look).await;
    }
    let opened = match url {
        StoreUrl::Postgres(options) => {
            let builder = postgres_builder(&options, spec)?;
            let builder = if look { builder.read_only() } else { builder };
            let builder = if migrate { builder.migrate() } else { builder };
            let store = builder.connect().await;
            store.map(|store| OpenStore::new(store, async |store: PgStore| store.close().await))
        }
        StoreUrl::MySql(options) => {
            let builder = MySqlStore::builder(&options).table(spec.table()?);
            let builder = if look { builder.read_only() } else { builder };
            let builder = if migrate { builder.migrate() } else { builder };
            let store = builder.connect().await;
            store.map(|store| OpenStore::new(store, async |store: MySqlStore| store.close().await))
        }
        StoreUrl::Sqlite(options) => {
            let builder = SqliteStore::builder(&options.create_if_missing(migrate)).table(spec.table()?);
            let builder = if look { builder.read_only() } else { builder };
            let builder = if migrate { builder.migrate() } else { builder };
            let store = builder.connect().await;
            store.map(|store| OpenStore::new(store, async |store: SqliteStore| store.close().await))
        }
        StoreUrl::Redis(builder) | StoreUrl::RedisCluster(builder) => {
            return redis_store(*builder, spec, look).await;
        }
        StoreUrl::Memory => return Err(no_memory().into()),
    };
    opened.map_err(|error| cannot_be_opened(spec, error))
}

/// Checks that these options can name a store, without connecting.
///
/// # Errors
///
/// The options are invalid; the error says what to write.
pub fn check(spec: &StoreSpec) -> Result<(), InvalidStore> {
    match resolve(spec)? {
        StoreUrl::Memory => Err(no_memory()),
        StoreUrl::Redis(_) | StoreUrl::RedisCluster(_) => spec.outbox().map(drop),
        StoreUrl::Postgres(_) | StoreUrl::MySql(_) | StoreUrl::Sqlite(_) => spec.table().map(drop),
    }
}

/// Parses the URL and checks that the other options fit the kind of store.
pub(crate) fn resolve(spec: &StoreSpec) -> Result<StoreUrl, InvalidStore> {
    let url = spec.url.expose().parse()?;
    match (&url, &spec.schema, spec.pgbouncer) {
        (StoreUrl::Postgres(_), ..) | (_, None, false) => Ok(url),
        (StoreUrl::MySql(_), Some(_), _) => Err(InvalidStore::new(
            "--schema is for PostgreSQL, and on MySQL a schema is a database: leave it out, and name the \
             database in the URL",
        )),
        (_, Some(_), _) => {
            Err(InvalidStore::new("--schema is for PostgreSQL, and this store has no schemas: leave it out"))
        }
        (_, None, true) => Err(InvalidStore::new("--pgbouncer is for PostgreSQL only: leave it out")),
    }
}

/// Opens a table that another program made.
async fn foreign_table(
    url: StoreUrl,
    layout: &Layout,
    spec: &StoreSpec,
    look: bool,
) -> Result<OpenStore, OpenStoreError> {
    let layout = layout.clone().table(spec.table()?);
    let builder = match url {
        StoreUrl::Postgres(_) if spec.pgbouncer => {
            let text = "a layout needs a session of its own, which PgBouncer in transaction mode does not give: name \
                        the server itself in the URL, and leave out --pgbouncer";
            return Err(InvalidStore::new(text).into());
        }
        StoreUrl::Postgres(options) => {
            ForeignTableStore::postgres(&options, layout).schema(spec.schema.clone().unwrap_or_default())
        }
        StoreUrl::MySql(options) => ForeignTableStore::mysql(&options, layout),
        _ => {
            let text =
                "--layout is for PostgreSQL, MySQL and MariaDB, and this store is another one: leave it out";
            return Err(InvalidStore::new(text).into());
        }
    };
    // A relay purges by its configuration, whose default for a foreign table is to keep everything.
    let builder = if look { builder.read_only() } else { builder.purge() };
    let store = builder.connect().await.map_err(|error| cannot_be_opened(spec, error))?;
    let limits = store.layout().limits();
    Ok(OpenStore { limits, ..OpenStore::new(store, async |store: ForeignTableStore| store.close().await) })
}

pub(crate) fn postgres_builder(
    options: &PgConnectOptions,
    spec: &StoreSpec,
) -> Result<PgStoreBuilder, InvalidStore> {
    let builder = PgStore::builder(options).table(spec.table()?);
    let builder = builder.schema(spec.schema.clone().unwrap_or_default());
    Ok(if spec.pgbouncer { builder.pgbouncer() } else { builder })
}

/// The number of shards is not set on purpose: the outbox has it on record, and a relay or an operator must not choose
/// another one.
async fn redis_store(
    builder: RedisStoreBuilder,
    spec: &StoreSpec,
    look: bool,
) -> Result<OpenStore, OpenStoreError> {
    let builder = builder.name(spec.outbox()?);
    let builder = if look { builder.read_only() } else { builder };
    let store = builder.connect().await;
    let store = store.map_err(|source| OpenStoreError::Redis { url: spec.url.clone(), source })?;
    Ok(OpenStore::new(store, async |_: RedisStore| {}))
}

fn cannot_be_opened(spec: &StoreSpec, source: OpenError) -> OpenStoreError {
    OpenStoreError::Sql { url: spec.url.clone(), source }
}

pub(crate) fn no_memory() -> InvalidStore {
    InvalidStore::new(format!(
        "a store in memory ends with the process that made it, so there is nothing to look at from \
         here: name the store of a running service, such as {KNOWN_URLS}"
    ))
}
