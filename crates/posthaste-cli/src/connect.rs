//! From a store's URL to its doors. This is the one place that knows which schemes there are.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail};
use posthaste::Admin;
use posthaste_sqlx::SqliteStore;
use posthaste_sqlx::sqlite::SqliteMigrations;
use sqlx::sqlite::SqliteConnectOptions;

use crate::args::StoreArgs;
use crate::failure::Usage;

/// What a URL may begin with, for messages.
const KNOWN: &str = "sqlite:///path/to/file.db or sqlite:file.db";

/// A store that a URL names.
#[derive(Clone, Debug)]
pub(crate) enum StoreUrl {
    Sqlite(Box<SqliteConnectOptions>),
    /// Lives in this process alone: of use to what runs an engine here, of none to operators.
    Memory,
}

/// The schema of a store. One store has one yet; with the second this becomes an enum.
pub(crate) type Migrations = SqliteMigrations;

/// Opens the operator's door, works, and closes it again: a process that ends without that leaves
/// SQLite's side files behind.
pub(crate) async fn with_admin<T>(
    args: &StoreArgs,
    work: impl AsyncFnOnce(&dyn Admin) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let store = match args.url.parse()? {
        StoreUrl::Sqlite(options) => {
            SqliteStore::builder(&options).table(args.table.clone()).read_only().connect().await
        }
        StoreUrl::Memory => return Err(no_memory().into()),
    };
    let store = store.with_context(|| format!("the outbox in {} cannot be opened", redact(&args.url)))?;
    let answer = work(&store).await;
    store.close().await;
    answer
}

/// The schema's door, which opens also where there is no outbox table yet.
pub(crate) fn migrations(args: &StoreArgs) -> anyhow::Result<Migrations> {
    match args.url.parse()? {
        StoreUrl::Sqlite(options) => {
            Ok(SqliteStore::builder(&options).table(args.table.clone()).migrations())
        }
        StoreUrl::Memory => Err(no_memory().into()),
    }
}

/// The same, also where there is no database yet.
pub(crate) fn migrations_that_create(args: &StoreArgs) -> anyhow::Result<Migrations> {
    match args.url.parse()? {
        StoreUrl::Sqlite(options) => {
            if args.url.contains("mode=ro") {
                let text = "a migration writes, and the store URL says mode=ro: leave that out";
                return Err(Usage::new(text).into());
            }
            expect_folder_of(options.get_filename())?;
            let options = options.create_if_missing(true);
            Ok(SqliteStore::builder(&options).table(args.table.clone()).migrations())
        }
        StoreUrl::Memory => Err(no_memory().into()),
    }
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
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(Usage::new(format!("{:?} is no store URL: write {KNOWN}", redact(url))));
        };
        match scheme {
            "sqlite" => sqlite(url),
            "memory" => Ok(Self::Memory),
            scheme => Err(Usage::new(format!(
                "this build of Posthaste knows no store {:?}: write {KNOWN}",
                redact(scheme)
            ))),
        }
    }
}

fn sqlite(url: &str) -> Result<StoreUrl, Usage> {
    let options: SqliteConnectOptions =
        url.parse().map_err(|error| Usage::new(format!("the store URL cannot be read: {error}")))?;
    if options.get_filename().as_os_str().is_empty() {
        return Err(Usage::new(format!("the store URL names no file: write {KNOWN}")));
    }
    let in_memory = url.contains(":memory:") || url.contains("mode=memory");
    Ok(if in_memory { StoreUrl::Memory } else { StoreUrl::Sqlite(Box::new(options)) })
}

/// A URL without what may be secret: the name and password before an `@`, and the query. A
/// password may hold any character, so the last `@` counts.
pub(crate) fn redact(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let (scheme, rest) = match url.split_once(':') {
        Some((scheme, rest)) => (format!("{scheme}:"), rest),
        None => (String::new(), url),
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => format!("//***@{host}"),
        None => rest.to_owned(),
    };
    let shown = rest.split_once('?').map_or(rest.as_str(), |(before, _)| before);
    format!("{scheme}{shown}")
}

/// The same for a text that may have such URLs among its words.
pub(crate) fn redact_words(text: &str) -> String {
    text.split_inclusive(char::is_whitespace)
        .map(|word| match word.find("://") {
            Some(_) if word.contains('@') && !word.contains("sqlite:") => redact_word(word),
            _ => word.to_owned(),
        })
        .collect()
}

/// Keeps what stands before the URL, such as a quote or an option's name.
fn redact_word(word: &str) -> String {
    let secret_from = word.find("://").map_or(0, |at| at + "://".len());
    let secret_to = word.rfind('@').unwrap_or(word.len());
    format!("{}***{}", &word[..secret_from], &word[secret_to.max(secret_from)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        for url in [
            "postgres://ann:sEcret@db.example:5432/shop?sslmode=require",
            "postgres://ann:sEcret/@#?:x@db.example/shop",
            "postgres:ann:sEcret@db.example/shop",
            "postgres://db.example/shop?password=sEcret",
            "ann:sEcret@db.example",
            "sEcret@db.example",
        ] {
            let shown = redact(url);
            assert!(!shown.contains("sEcret"), "{shown}");
            assert!(shown.contains("db.example"), "{shown}");
        }
        assert_eq!(redact("sqlite:///var/a@b/x.db"), "sqlite:///var/a@b/x.db");
    }

    #[test]
    fn passwords_in_prose_are_never_shown() {
        let text = "error: unexpected argument 'postgres://ann:sEc@ret@db.example/shop' found\n\n  for more";
        let shown = redact_words(text);
        assert_eq!(shown, "error: unexpected argument 'postgres://***@db.example/shop' found\n\n  for more");
    }

    // S3-09
    #[test]
    fn wrong_urls_say_what_to_write() {
        for url in
            ["", "shop.db", "postgres://ann:sEcret@db/shop", "sqlite:", "sqlite:x?mode=odd", "ann:sEcret@db"]
        {
            let said = url.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(!said.contains("sEcret"), "{said}");
            assert!(said.contains("URL") || said.contains(KNOWN), "{said}");
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
