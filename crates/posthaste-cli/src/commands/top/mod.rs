//! `posthaste top`: a live view of stores and relays, from the overview down to a group of DEAD events.
//!
//! - `source` is the trait of what is observed. Its implementations are `store_source`, and `relay_source` with its
//!   `relay_metrics`. `outbox_snapshot` is the state of one outbox when it was observed.
//! - `app` is the state of the screen. `keys` maps keys to changes of it, `outbox_history` is one outbox over time,
//!   `list_cursor` the selected entry of a list. None of them does I/O.
//! - `draw` draws the app.
//! - `run` connects the parts: `terminal` is the screen, `source_tasks` observe the sources in the background.

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
use posthaste_stores::{SecretUrl, StoreSpec};

use self::relay_source::RelaySource;
use self::source::Source;
use self::store_source::StoreSource;
use super::status::watch::parse_interval;
use crate::args::ActorArgs;
use crate::errors::UsageError;
use crate::output::Output;
use crate::relay_token;
use crate::store_args::TableArgs;

/// Watch stores and relays on one screen: rates, lag, routes and groups of DEAD events, which can be replayed
///
/// Any number of stores and relays can be given. Without any, the variables POSTHASTE_STORE and POSTHASTE_RELAY are
/// used. A source that does not respond shows the error and recovers by itself.
///
/// Keys: arrows or j and k select, Enter opens, Esc goes back, r replays the selected group of DEAD events after
/// confirmation, p freezes the screen, ? shows all keys, q quits.
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

    /// The configuration file of a relay: the stores of all its outboxes are shown
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The admin listener of a relay; may be given several times [default: the variable POSTHASTE_RELAY]
    #[arg(long = "relay", value_name = "URL")]
    relays: Vec<SecretUrl>,

    /// A file with the token that the relays require, if they require one [default: the variable POSTHASTE_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The pause between two observations
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    #[command(flatten)]
    actor: ActorArgs,

    // Last, because its heading applies to all arguments that follow.
    #[command(flatten)]
    table: TableArgs,
}

pub(crate) async fn run(args: TopArgs, output: Output) -> anyhow::Result<ExitCode> {
    if output == Output::Json || !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(UsageError::new(
            "top needs a terminal: posthaste status --watch prints one reading after another, and \
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
        let spec = args.table.in_store(url);
        posthaste_stores::check(&spec)?;
        specs.push(spec);
    }
    if specs.is_empty() && relays.is_empty() {
        let text = "nothing to show: name a store with --store URL or POSTHASTE_STORE, the file of a relay with \
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

/// The sources from the command line; if there are none, those from the environment.
fn named(args: &TopArgs) -> (Vec<SecretUrl>, Vec<SecretUrl>) {
    if !args.stores.is_empty() || !args.relays.is_empty() || args.config.is_some() {
        return (args.stores.clone(), args.relays.clone());
    }
    let variable = |name| std::env::var(name).ok().map(SecretUrl::new).into_iter().collect();
    (variable("POSTHASTE_STORE"), variable("POSTHASTE_RELAY"))
}

/// The stores of all outboxes in the configuration file.
fn configured(args: &TopArgs) -> anyhow::Result<Vec<StoreSpec>> {
    let Some(file) = &args.config else { return Ok(Vec::new()) };
    let config = config::Source::File(file.clone()).load()?;
    Ok(config.outboxes.into_iter().map(|outbox| outbox.store).collect())
}
