//! Options that name an outbox: its store, or the configuration file of its relay.

use std::path::{Path, PathBuf};

use clap::Args;
use posthaste_sqlx::{Layout, SchemaName};

use crate::errors::UsageError;
use posthaste_relay::config::{OutboxConfig, Source};
use posthaste_stores::SecretUrl;
use posthaste_stores::StoreSpec;

/// The location of the outbox. Flattened last, because its heading applies to all arguments that follow.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// The store, such as postgres://shop@db.example/shop, mysql://shop@db.example/shop,
    /// redis://db.example/, redis+cluster://a.example:6379,b.example:6379/ or sqlite:///var/lib/shop/shop.db
    /// [env: POSTHASTE_STORE]
    // The variable is read later, because it may be set while --config is given.
    #[arg(long = "store", value_name = "URL")]
    url: Option<SecretUrl>,

    #[command(flatten)]
    table: TableArgs,

    /// The configuration file of a relay, which names its outboxes, instead of the options above
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "table", "schema", "layout", "pgbouncer"])]
    config: Option<PathBuf>,

    /// The outbox of that file [default: the only one]
    #[arg(long, value_name = "NAME", requires = "config")]
    outbox: Option<String>,
}

/// Which table of a store is the outbox, and how the store is reached.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct TableArgs {
    /// The outbox table; on Redis, the name of the outbox [default: outbox_event; on Redis: outbox]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// The schema of the table, on PostgreSQL [default: public]
    #[arg(long, value_name = "NAME")]
    schema: Option<SchemaName>,

    /// The table belongs to another program: order-service, outbox-record or debezium
    #[arg(long, value_name = "PRESET", value_parser = parse_layout)]
    layout: Option<Layout>,

    /// The URL leads to a PgBouncer in transaction mode
    #[arg(long)]
    pgbouncer: bool,
}

impl TableArgs {
    /// The outbox in the store at this URL.
    pub(crate) fn in_store(&self, url: SecretUrl) -> StoreSpec {
        let spec = StoreSpec::new(url).with_table(self.table.clone()).with_schema(self.schema.clone());
        spec.with_layout(self.layout.clone()).with_pgbouncer(self.pgbouncer)
    }
}

impl StoreArgs {
    pub(crate) fn spec(&self) -> anyhow::Result<StoreSpec> {
        if let Some(file) = &self.config {
            return in_file(file, self.outbox.as_deref());
        }
        Ok(self.table.in_store(typed_or_in_environment(self.url.clone())?))
    }
}

pub(crate) const NO_STORE: &str =
    "the store is missing: give --store URL or --config FILE, or set POSTHASTE_STORE";

pub(crate) fn typed_or_in_environment(typed: Option<SecretUrl>) -> Result<SecretUrl, UsageError> {
    let named = || std::env::var("POSTHASTE_STORE").ok().map(SecretUrl::new);
    typed.or_else(named).ok_or_else(|| UsageError::new(NO_STORE))
}

pub(crate) fn parse_layout(name: &str) -> Result<Layout, String> {
    Layout::preset(name).ok_or_else(|| format!("must be one of {}", Layout::PRESETS.join(", ")))
}

/// The outbox with this name; without a name, the only one.
fn in_file(file: &Path, name: Option<&str>) -> anyhow::Result<StoreSpec> {
    let outboxes = Source::File(file.to_owned()).load()?.outboxes;
    let found = match name {
        Some(name) => outboxes.iter().find(|outbox| outbox.config.name == name),
        None if outboxes.len() == 1 => outboxes.first(),
        None => None,
    };
    match found {
        Some(outbox) => Ok(outbox.store.clone()),
        None => Err(selection(file, name, &outboxes).into()),
    }
}

fn selection(file: &Path, name: Option<&str>, outboxes: &[OutboxConfig]) -> UsageError {
    let names: Vec<_> = outboxes.iter().map(|outbox| outbox.config.name.as_str()).collect();
    let (file, names) = (file.display(), names.join(", "));
    UsageError::new(match name {
        Some(name) => format!("{file} has no outbox {name:?}: give --outbox with one of {names}"),
        None => format!("{file} has several outboxes: give --outbox with one of {names}"),
    })
}
