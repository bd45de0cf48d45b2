//! `posthaste top`: a live view of stores and relays, from the overview down to a group of DEAD events.
//!
//! - `source` is what is observed: a `store`, or a `relay` with its `relay_metrics`. `snapshot` is the state of one
//!   outbox as it was observed.
//! - `app` is all that the screen shows, and how a message changes it; `keys` says what each key does, `outbox_row`
//!   is one outbox over time, `cursor` the chosen entry of a list. None of them reads or writes anything.
//! - `draw` draws the app.
//! - `run` brings them together: `screen` is the terminal, `background` holds the tasks that read the sources.

mod app;
mod draw;
mod keys;
mod list_cursor;
mod outbox_history;
mod outbox_snapshot;
mod relay_metrics;
mod relay_source;
mod run;
mod source;
mod source_tasks;
mod store_source;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal as _, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use posthaste_admin::Client;
use posthaste_relay::config;
use posthaste_sqlx::{Layout, SchemaName};
use posthaste_stores::{InvalidStore, SecretUrl, StoreSpec};

use self::relay_source::RelaySource;
use self::source::Source;
use self::store_source::StoreSource;
use super::status::watch::parse_interval;
use crate::args::ActorArgs;
use crate::errors::UsageError;
use crate::output::Output;
use crate::relay_token;
use crate::store_args::parse_layout;

/// Watch stores and relays on one screen: rates, lag, routes, dead groups, and replay them
///
/// Stores and relays stand side by side, as many as are named. Without any, the variables POSTHASTE_STORE and
/// POSTHASTE_RELAY say what to look at. One that does not answer shows why, and comes back by itself.
///
/// Keys: arrows or j and k choose, Enter looks closer, Esc goes back, r replays the chosen group of DEAD events
/// after a question, p holds the screen still, ? shows all keys, q quits.
///
/// It needs a terminal; `posthaste status --watch` and `posthaste status --output json` do not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste top
  posthaste top --store postgres://shop@db.example/shop --store sqlite:bills.db
  posthaste top --config posthaste.toml
  posthaste top --relay http://127.0.0.1:9911 --relay https://relay.example:9911 --token-file ~/.posthaste-token")]
pub(crate) struct TopArgs {
    /// A store; may be given several times [default: the variable POSTHASTE_STORE]
    #[arg(long = "store", value_name = "URL")]
    stores: Vec<SecretUrl>,

    /// The configuration file of a relay: all its outboxes are looked at, in their stores
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The admin listener of a relay; may be given several times [default: the variable POSTHASTE_RELAY]
    #[arg(long = "relay", value_name = "URL")]
    relays: Vec<SecretUrl>,

    /// The file with the token that the relays ask for, if they ask [default: the variable POSTHASTE_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The pause between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    #[command(flatten)]
    actor: ActorArgs,

    /// The outbox table of every --store; on Redis, the name of the outbox [default: outbox_event; on Redis:
    /// outbox]
    #[arg(long, value_name = "NAME", help_heading = "Stores")]
    table: Option<String>,

    /// The schema that the table stands in, on PostgreSQL [default: public]
    #[arg(long, value_name = "NAME", help_heading = "Stores")]
    schema: Option<SchemaName>,

    /// The tables are another's: order-service, outbox-record or debezium
    #[arg(long, value_name = "PRESET", help_heading = "Stores", value_parser = parse_layout)]
    layout: Option<Layout>,

    /// The URLs lead to a PgBouncer in transaction mode
    #[arg(long, help_heading = "Stores")]
    pgbouncer: bool,
}

pub(crate) async fn run(args: TopArgs, output: Output) -> anyhow::Result<ExitCode> {
    if output == Output::Json || !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(UsageError::new(
            "top draws on a terminal, and there is none: posthaste status --watch prints look after look, and \
             posthaste status --output json is for programs",
        )
        .into());
    }
    run::run(sources(&args)?, args.interval).await?;
    Ok(ExitCode::SUCCESS)
}

fn sources(args: &TopArgs) -> anyhow::Result<Vec<Box<dyn Source>>> {
    let (stores, relays) = named(args);
    let mut specs = configured(args)?;
    for url in stores {
        specs.push(typed(args, url)?);
    }
    if specs.is_empty() && relays.is_empty() {
        let text = "nothing to look at: name a store with --store URL or POSTHASTE_STORE, the file of a relay with \
                    --config FILE, or a running relay with --relay URL, such as --relay http://127.0.0.1:9911";
        return Err(UsageError::new(text).into());
    }
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for spec in specs {
        sources.push(Box::new(StoreSource::new(spec, args.actor.name())));
    }
    let token = relay_token::token(args.token_file.as_deref())?;
    for url in relays {
        sources.push(Box::new(RelaySource::new(Client::new(url.expose(), token.clone())?)));
    }
    Ok(sources)
}

/// What was typed; if nothing was, what the environment names.
fn named(args: &TopArgs) -> (Vec<SecretUrl>, Vec<SecretUrl>) {
    if !args.stores.is_empty() || !args.relays.is_empty() || args.config.is_some() {
        return (args.stores.clone(), args.relays.clone());
    }
    let variable = |name| std::env::var(name).ok().map(SecretUrl::new).into_iter().collect();
    (variable("POSTHASTE_STORE"), variable("POSTHASTE_RELAY"))
}

/// All outboxes of the file.
fn configured(args: &TopArgs) -> anyhow::Result<Vec<StoreSpec>> {
    let Some(file) = &args.config else { return Ok(Vec::new()) };
    let config = config::Source::File(file.clone()).load()?;
    Ok(config.outboxes.into_iter().map(|outbox| outbox.store).collect())
}

fn typed(args: &TopArgs, url: SecretUrl) -> Result<StoreSpec, InvalidStore> {
    let (table, schema, layout) = (args.table.clone(), args.schema.clone(), args.layout.clone());
    let spec = StoreSpec { url, table, schema, layout, pgbouncer: args.pgbouncer };
    posthaste_stores::check(&spec)?;
    Ok(spec)
}
