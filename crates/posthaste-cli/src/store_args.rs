//! Options that name an outbox: its store, or the file of the relay that delivers from it.

use std::path::{Path, PathBuf};

use clap::Args;
use posthaste_sqlx::{Layout, SchemaName};

use crate::errors::UsageError;
use posthaste_relay::config::{OutboxConfig, Source};
use posthaste_stores::SecretUrl;
use posthaste_stores::StoreSpec;

/// Where the outbox is. Flattened last, because its heading holds for all that follows.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// The store, such as postgres://shop@db.example/shop, mysql://shop@db.example/shop,
    /// redis://db.example/, redis+cluster://a.example:6379,b.example:6379/ or sqlite:///var/lib/shop/shop.db
    /// [env: POSTHASTE_STORE]
    // The variable is read later: it may be set while --config is given.
    #[arg(long = "store", value_name = "URL")]
    url: Option<SecretUrl>,

    /// The outbox table; on Redis, the name of the outbox [default: outbox_event; on Redis: outbox]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// The schema that the table stands in, on PostgreSQL [default: public]
    #[arg(long, value_name = "NAME")]
    schema: Option<SchemaName>,

    /// The table is another's: order-service, outbox-record or debezium
    #[arg(long, value_name = "PRESET", value_parser = parse_layout)]
    layout: Option<Layout>,

    /// The URL leads to a PgBouncer in transaction mode
    #[arg(long)]
    pgbouncer: bool,

    /// Instead of all these, the configuration file of a relay, which says where its outboxes are
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "table", "schema", "layout", "pgbouncer"])]
    config: Option<PathBuf>,

    /// Which outbox of that file [default: the only one]
    #[arg(long, value_name = "NAME", requires = "config")]
    outbox: Option<String>,
}

impl StoreArgs {
    pub(crate) fn spec(&self) -> anyhow::Result<StoreSpec> {
        if let Some(file) = &self.config {
            return in_file(file, self.outbox.as_deref());
        }
        let url = typed_or_in_environment(self.url.clone())?;
        let (table, schema, layout) = (self.table.clone(), self.schema.clone(), self.layout.clone());
        Ok(StoreSpec { url, table, schema, layout, pgbouncer: self.pgbouncer })
    }
}

pub(crate) const NO_STORE: &str =
    "the store is missing: write --store URL or --config FILE, or set POSTHASTE_STORE";

pub(crate) fn typed_or_in_environment(typed: Option<SecretUrl>) -> Result<SecretUrl, UsageError> {
    let named = || std::env::var("POSTHASTE_STORE").ok().map(SecretUrl::new);
    typed.or_else(named).ok_or_else(|| UsageError::new(NO_STORE))
}

pub(crate) fn parse_layout(name: &str) -> Result<Layout, String> {
    Layout::preset(name).ok_or_else(|| format!("known are {}", Layout::PRESETS.join(", ")))
}

/// The outbox of that name; without a name, the only one.
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
        Some(name) => format!("{file} has no outbox {name:?}: write --outbox with one of {names}"),
        None => format!("{file} has several outboxes: write --outbox with one of {names}"),
    })
}
