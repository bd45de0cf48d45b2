//! From a store's URL to its doors. This is the one place that knows which schemes there are.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail};
use posthaste::Admin;
use posthaste_sqlx::postgres::{PgMigrations, PgStoreBuilder};
use posthaste_sqlx::sqlite::SqliteMigrations;
use posthaste_sqlx::{Migration, OpenError, PgStore, SchemaState, SqliteStore};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::args::StoreArgs;
use crate::failure::Usage;
use crate::redact::redact;

/// What a URL may begin with, for messages.
const KNOWN: &str = "postgres://user@host/database, sqlite:///path/to/file.db or sqlite:file.db";

/// A store that a URL names.
#[derive(Clone)]
pub(crate) enum StoreUrl {
    Postgres(Box<PgConnectOptions>),
    Sqlite(Box<SqliteConnectOptions>),
    /// Lives in this process alone: of use to what runs an engine here, of none to operators.
    Memory,
}

/// The driver's options would tell the password.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres(_) => "Postgres",
            Self::Sqlite(_) => "Sqlite",
            Self::Memory => "Memory",
        })
    }
}

/// Opens the operator's door, works, and closes it again: a process that ends without that leaves
/// SQLite's side files behind.
pub(crate) async fn with_admin<T>(
    args: &StoreArgs,
    work: impl AsyncFnOnce(&dyn Admin) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cannot = || format!("the outbox in {} cannot be opened", args.url);
    match resolve(args)? {
        StoreUrl::Postgres(options) => {
            let store = postgres_store(&options, args).read_only().connect().await.with_context(cannot)?;
            let answer = work(&store).await;
            store.close().await;
            answer
        }
        StoreUrl::Sqlite(options) => {
            let store = SqliteStore::builder(&options).table(args.table.clone()).read_only();
            let store = store.connect().await.with_context(cannot)?;
            let answer = work(&store).await;
            store.close().await;
            answer
        }
        StoreUrl::Memory => Err(no_memory().into()),
    }
}

/// The schema of a store.
pub(crate) enum Migrations {
    Postgres(PgMigrations),
    Sqlite(SqliteMigrations),
}

impl Migrations {
    /// The schema's door, which opens also where there is no outbox table yet.
    pub(crate) fn of(args: &StoreArgs) -> anyhow::Result<Self> {
        match resolve(args)? {
            StoreUrl::Postgres(options) => Ok(Self::Postgres(postgres_store(&options, args).migrations())),
            StoreUrl::Sqlite(options) => {
                Ok(Self::Sqlite(SqliteStore::builder(&options).table(args.table.clone()).migrations()))
            }
            StoreUrl::Memory => Err(no_memory().into()),
        }
    }

    /// The same, also where there is no SQLite file yet.
    pub(crate) fn that_create(args: &StoreArgs) -> anyhow::Result<Self> {
        let StoreUrl::Sqlite(options) = resolve(args)? else { return Self::of(args) };
        if args.url.secret().contains("mode=ro") {
            let text = "a migration writes, and the store URL says mode=ro: leave that out";
            return Err(Usage::new(text).into());
        }
        expect_folder_of(options.get_filename())?;
        let options = options.create_if_missing(true);
        Ok(Self::Sqlite(SqliteStore::builder(&options).table(args.table.clone()).migrations()))
    }

    pub(crate) fn sql(&self) -> String {
        match self {
            Self::Postgres(migrations) => migrations.sql(),
            Self::Sqlite(migrations) => migrations.sql(),
        }
    }

    pub(crate) fn adoption_sql(&self) -> String {
        match self {
            Self::Postgres(migrations) => migrations.adoption_sql(),
            Self::Sqlite(migrations) => migrations.adoption_sql(),
        }
    }

    pub(crate) async fn check(&self) -> Result<SchemaState, OpenError> {
        match self {
            Self::Postgres(migrations) => migrations.check().await,
            Self::Sqlite(migrations) => migrations.check().await,
        }
    }

    pub(crate) async fn apply(&self) -> Result<Vec<Migration>, OpenError> {
        match self {
            Self::Postgres(migrations) => migrations.apply().await,
            Self::Sqlite(migrations) => migrations.apply().await,
        }
    }

    pub(crate) async fn adopt(&self) -> Result<Vec<Migration>, OpenError> {
        match self {
            Self::Postgres(migrations) => migrations.adopt().await,
            Self::Sqlite(migrations) => migrations.adopt().await,
        }
    }
}

/// The store that the URL names, if the other options fit it.
fn resolve(args: &StoreArgs) -> Result<StoreUrl, Usage> {
    let url = args.url.secret().parse()?;
    let is_postgres = matches!(url, StoreUrl::Postgres(_));
    match (&args.schema, args.pgbouncer) {
        (Some(_), _) if !is_postgres => {
            Err(Usage::new("--schema is for PostgreSQL, and this store has no schemas: leave it out"))
        }
        (_, true) if !is_postgres => {
            Err(Usage::new("--pgbouncer is for PostgreSQL, and this store is none: leave it out"))
        }
        _ => Ok(url),
    }
}

fn postgres_store(options: &PgConnectOptions, args: &StoreArgs) -> PgStoreBuilder {
    let builder = PgStore::builder(options).table(args.table.clone());
    let builder = builder.schema(args.schema.clone().unwrap_or_default());
    if args.pgbouncer { builder.pgbouncer() } else { builder }
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

impl FromStr for StoreUrl {
    type Err = Usage;

    fn from_str(url: &str) -> Result<Self, Usage> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(Usage::new(format!("{:?} is no store URL: write {KNOWN}", redact(url))));
        };
        match scheme {
            "postgres" | "postgresql" => postgres(url, rest),
            "sqlite" => sqlite(url),
            "memory" => Ok(Self::Memory),
            scheme => Err(Usage::new(format!(
                "this build of Posthaste knows no store {:?}: write {KNOWN}",
                redact(scheme)
            ))),
        }
    }
}

fn unreadable(error: &sqlx::Error) -> Usage {
    Usage::new(format!("the store URL cannot be read: {error}"))
}

fn postgres(url: &str, rest: &str) -> Result<StoreUrl, Usage> {
    let Some(rest) = rest.strip_prefix("//") else {
        return Err(Usage::new(format!("a PostgreSQL URL has // after its scheme: write {KNOWN}")));
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let behind_host = place.find('/').map_or("", |at| &place[at..]);
    // Half of a password would be taken for the host, and be shown as such.
    if place.contains('#') || behind_host.contains('@') {
        return Err(Usage::new(
            "the store URL cannot be read: in its user and password write # as %23, / as %2F, ? as %3F and \
             @ as %40",
        ));
    }
    query.split('&').filter(|pair| !pair.is_empty()).try_for_each(expect_known)?;
    Ok(StoreUrl::Postgres(Box::new(url.parse().map_err(|error| unreadable(&error))?)))
}

/// What the driver understands. It would ignore the rest, with a warning that shows the value.
const PARAMETERS: [&str; 12] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

fn expect_known(parameter: &str) -> Result<(), Usage> {
    let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
    if PARAMETERS.contains(&name) || name.starts_with("options[") || name.starts_with("options%5B") {
        return Ok(());
    }
    Err(Usage::new(format!(
        "the store URL has a parameter that PostgreSQL URLs do not have: known are {}",
        PARAMETERS.join(", ")
    )))
}

fn sqlite(url: &str) -> Result<StoreUrl, Usage> {
    let options: SqliteConnectOptions = url.parse().map_err(|error| unreadable(&error))?;
    if options.get_filename().as_os_str().is_empty() {
        return Err(Usage::new(format!("the store URL names no file: write {KNOWN}")));
    }
    let in_memory = url.contains(":memory:") || url.contains("mode=memory");
    Ok(if in_memory { StoreUrl::Memory } else { StoreUrl::Sqlite(Box::new(options)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-09
    #[test]
    fn wrong_urls_say_what_to_write() {
        for url in [
            "",
            "shop.db",
            "mysql://ann:sEcret@db/shop",
            "sqlite:",
            "sqlite:x?mode=odd",
            "ann:sEcret@db",
            "postgres:ann:sEcret@db/shop",
            "postgres://ann:12#sEcret@db/shop",
            "postgres://ann:12/sEcret@db/shop",
            "postgres://ann:12?sEcret@db/shop",
            "postgres://ann:sEcret@db:port/shop",
            "postgres://db/shop?pasword=sEcret",
            "postgres://db/shop?sslmode=odd&password=sEcret",
        ] {
            let said = url.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(!said.contains("sEcret"), "{said}");
            assert!(said.contains("URL") || said.contains(KNOWN), "{said}");
        }
    }

    #[test]
    fn postgres_urls_are_read_and_never_shown() {
        for url in [
            "postgres://ann:sEcret@db.example/shop",
            "postgresql://ann:sEcret@db.example:5433/shop?sslmode=require&options[search_path]=a",
            "postgres:///shop?host=/run/postgresql&user=ann&password=sEcret",
        ] {
            let url: StoreUrl = url.parse().unwrap();
            assert!(matches!(url, StoreUrl::Postgres(_)));
            assert!(!format!("{url:?}").contains("sEcret"));
        }
    }

    // S3-09
    #[test]
    fn memory_of_any_kind_is_memory() {
        for url in ["memory:", "sqlite::memory:", "sqlite://:memory:", "sqlite:x?mode=memory"] {
            assert!(matches!(url.parse(), Ok(StoreUrl::Memory)), "{url}");
        }
        assert!(matches!("sqlite:x.db".parse(), Ok(StoreUrl::Sqlite(_))));
    }
}
