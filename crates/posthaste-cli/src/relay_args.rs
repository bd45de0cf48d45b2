//! Options that say what a relay does: a configuration file, or one outbox by options alone.

use std::path::PathBuf;

use clap::Args;
use posthaste_relay::config::{Flags, Source};
use posthaste_stores::{SecretUrl, StoreSpec};

use crate::errors::UsageError;
use crate::store_args::{NO_STORE, parse_layout, typed_or_in_environment};

/// Where the configuration is: in a file, or in the options.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) relay: RelayFlags,
}

/// One outbox, without a file, and how its relay runs.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Without a file")]
pub(crate) struct RelayFlags {
    #[command(flatten)]
    pub(crate) outbox: OutboxFlags,

    /// Create or upgrade the outbox table first
    #[arg(long)]
    pub(crate) migrate: bool,

    /// Where health, metrics and the API are served, or off [default: 127.0.0.1:9911]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
}

/// Where one outbox is, and where its events go.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Without a file")]
pub(crate) struct OutboxFlags {
    /// The store, such as postgres://shop@db.example/shop [env: POSTHASTE_STORE]
    // The variable is read later: it may be set while --config is given.
    #[arg(long = "store", value_name = "URL")]
    store: Option<SecretUrl>,

    /// Where events go: URL for all of them, or PATTERN=URL, such as 'Order.*=kafka://broker:9092/orders'
    ///
    /// A PATTERN is an aggregate type and an event type, as in Order.OrderPlaced, Order.* or Order:*, an event
    /// type of any aggregate, as in OrderPlaced, or * for everything; @TENANT may follow, which is a pattern
    /// too. Those without a * are asked first, then those with one in their order, and everything last. May be
    /// given several times.
    #[arg(long = "publish", value_name = "[PATTERN=]URL")]
    pub(crate) publish: Vec<SecretUrl>,

    /// The outbox table; on Redis, the name of the outbox [default: outbox_event; on Redis: outbox]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// The schema that the table stands in, on PostgreSQL [default: public]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,

    /// The table is another's: order-service, outbox-record or debezium
    #[arg(long, value_name = "PRESET")]
    layout: Option<String>,

    /// The URL leads to a PgBouncer in transaction mode
    #[arg(long)]
    pgbouncer: bool,
}

impl OutboxFlags {
    /// The store alone, which the environment may name.
    pub(crate) fn store(&self) -> Result<StoreSpec, UsageError> {
        let url = typed_or_in_environment(self.store.clone())?;
        let schema = self.schema.as_deref().map(str::parse).transpose();
        let schema = schema.map_err(|error| UsageError::new(format!("--schema: {error}")))?;
        let layout = self.layout.as_deref().map(parse_layout).transpose();
        let layout = layout.map_err(|error| UsageError::new(format!("--layout: {error}")))?;
        Ok(StoreSpec { url, table: self.table.clone(), schema, layout, pgbouncer: self.pgbouncer })
    }
}

impl ConfigArgs {
    /// What to read, now and when it is to be read again.
    pub(crate) fn source(&self) -> Result<Source, UsageError> {
        let flags = self.relay.flags();
        match (&self.config, first_given(&flags)) {
            (Some(file), None) => Ok(Source::File(file.clone())),
            (Some(_), Some(flag)) => Err(UsageError::new(format!(
                "--config and {flag} exclude each other: write it into the file, or leave out --config"
            ))),
            (None, _) if flags.publish.is_empty() => Err(UsageError::new(
                "there is nothing to deliver: name a file with --config posthaste.toml, or write --store URL and \
                 --publish 'PATTERN=URL'",
            )),
            (None, _) if flags.names_a_store() => Ok(Source::Flags(flags)),
            (None, _) => Err(UsageError::new(NO_STORE)),
        }
    }
}

impl RelayFlags {
    fn flags(&self) -> Flags {
        let OutboxFlags { store, publish, table, schema, layout, pgbouncer } = self.outbox.clone();
        let (migrate, listen) = (self.migrate, self.listen.clone());
        Flags { store, publish, table, schema, layout, pgbouncer, migrate, listen }
    }
}

fn first_given(flags: &Flags) -> Option<&'static str> {
    let given = [
        ("--store", flags.store.is_some()),
        ("--publish", !flags.publish.is_empty()),
        ("--table", flags.table.is_some()),
        ("--schema", flags.schema.is_some()),
        ("--layout", flags.layout.is_some()),
        ("--pgbouncer", flags.pgbouncer),
        ("--migrate", flags.migrate),
        ("--listen", flags.listen.is_some()),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}
