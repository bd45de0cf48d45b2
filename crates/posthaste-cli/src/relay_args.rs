//! Options of a relay: a configuration file, or one outbox described by options alone.

use std::path::PathBuf;

use clap::Args;
use posthaste_relay::config::{Flags, Source};
use posthaste_stores::{SecretUrl, StoreSpec};

use crate::errors::UsageError;
use crate::store_args::{NO_STORE, parse_layout, typed_or_in_environment};

/// The options that describe an outbox, which a file describes as well.
const CONFLICTING_OPTIONS: [&str; 8] =
    ["store", "publish", "table", "schema", "layout", "pgbouncer", "migrate", "listen"];

/// The source of the configuration: a file or options.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", conflicts_with_all = CONFLICTING_OPTIONS)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) relay: RelayFlags,
}

/// Options that describe one outbox and how its relay runs, without a file.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Without a file")]
pub(crate) struct RelayFlags {
    #[command(flatten)]
    pub(crate) outbox: OutboxFlags,

    /// Create or upgrade the outbox table first
    #[arg(long)]
    pub(crate) migrate: bool,

    /// The address of the health checks, the metrics and the API, or off [default: 127.0.0.1:9911]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
}

/// Options that describe one outbox and its destinations.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Without a file")]
pub(crate) struct OutboxFlags {
    /// The store, such as postgres://shop@db.example/shop [env: POSTHASTE_STORE]
    // The variable is read later, because it may be set while --config is given.
    #[arg(long = "store", value_name = "URL")]
    store: Option<SecretUrl>,

    /// Destination of events: a URL for all of them, or PATTERN=URL, such as 'Order.*=kafka://broker:9092/orders'
    ///
    /// A PATTERN is an aggregate type and an event type, as in Order.OrderPlaced, Order.* or Order:*, an event type of
    /// any aggregate, as in OrderPlaced, or * for everything. It may end in @TENANT, which is a pattern too. Patterns
    /// without * are matched first, then those with a *, in the given order, and * alone last. May be given several
    /// times.
    #[arg(long = "publish", value_name = "[PATTERN=]URL")]
    pub(crate) publish: Vec<SecretUrl>,

    /// The outbox table; on Redis, the name of the outbox [default: outbox_event; on Redis: outbox]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// The schema of the table, on PostgreSQL [default: public]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,

    /// The table belongs to another program: order-service, outbox-record or debezium
    #[arg(long, value_name = "PRESET")]
    layout: Option<String>,

    /// The URL leads to a PgBouncer in transaction mode
    #[arg(long)]
    pgbouncer: bool,
}

impl OutboxFlags {
    /// The store; its URL may come from the environment.
    pub(crate) fn store(&self) -> Result<StoreSpec, UsageError> {
        let url = typed_or_in_environment(self.store.clone())?;
        let schema = self.schema.as_deref().map(str::parse).transpose();
        let schema = schema.map_err(|error| UsageError::new(format!("--schema: {error}")))?;
        let layout = self.layout.as_deref().map(parse_layout).transpose();
        let layout = layout.map_err(|error| UsageError::new(format!("--layout: {error}")))?;
        let spec = StoreSpec::new(url).with_table(self.table.clone()).with_schema(schema);
        Ok(spec.with_layout(layout).with_pgbouncer(self.pgbouncer))
    }
}

impl ConfigArgs {
    /// The source of the configuration, for the start and for every reload.
    pub(crate) fn source(&self) -> Result<Source, UsageError> {
        if let Some(file) = &self.config {
            return Ok(Source::File(file.clone()));
        }
        let flags = self.relay.flags();
        if flags.publish.is_empty() {
            return Err(UsageError::new(
                "there is nothing to deliver: name a file with --config posthaste.toml, or give --store URL and \
                 --publish 'PATTERN=URL'",
            ));
        }
        if flags.names_a_store() { Ok(Source::Flags(flags)) } else { Err(UsageError::new(NO_STORE)) }
    }
}

impl RelayFlags {
    fn flags(&self) -> Flags {
        let OutboxFlags { store, publish, table, schema, layout, pgbouncer } = self.outbox.clone();
        let mut flags = Flags::default();
        (flags.store, flags.publish, flags.table) = (store, publish, table);
        (flags.schema, flags.layout, flags.pgbouncer) = (schema, layout, pgbouncer);
        (flags.migrate, flags.listen) = (self.migrate, self.listen.clone());
        flags
    }
}
