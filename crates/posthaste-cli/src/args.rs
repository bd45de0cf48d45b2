//! Command-line arguments (clap): every command, its options and its help.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use posthaste::admin::{Filter, PageRequest};
use posthaste::{EventId, Status};

use crate::commands::audit::AuditArgs;
use crate::commands::config::ConfigCommand;
use crate::commands::dead::DeadCommand;
use crate::commands::doctor::DoctorArgs;
use crate::commands::event::EventCommand;
use crate::commands::relay::RelayArgs;
use crate::commands::route::{PauseArgs, ResumeArgs};
use crate::commands::status::StatusArgs;
use crate::commands::tail::TailArgs;
use crate::commands::top::TopArgs;
use crate::demo::DemoArgs;
use crate::output::Output;
use crate::store_args::StoreArgs;

const HELP_EXAMPLES: &str = "\
Examples:
  export POSTHASTE_STORE=postgres://shop@db.example/shop
  posthaste migrate apply                    create the outbox table
  posthaste relay --publish kafka://broker:9092/orders
  posthaste status                           what waits, what is late, what died
  posthaste top                              the same and more, live on one screen
  posthaste doctor                           why it is slow or stuck, and what to do
  posthaste dead list                        what died and why
  posthaste dead replay --all --type OrderPlaced --error timeout
  posthaste pause mail                       stop the deliveries of a route, on every engine
  posthaste purge --done --older-than 7d
  posthaste demo                             see it work, with nothing to install
  posthaste bench --store sqlite:bench.db    how fast it is on this machine

Exit codes: 0 it worked, 1 it failed or there is something to do, 2 wrong usage.
Logs go to stderr; RUST_LOG=debug shows more of them.";

/// Looks after a Posthaste outbox: what waits, what is late, what died and why
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, after_help = HELP_EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Tables for people, or one JSON document on one line for programs
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Relay(RelayArgs),
    /// Check and show the configuration of a relay
    #[command(subcommand)]
    Config(ConfigCommand),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    Tail(TailArgs),
    Top(TopArgs),
    /// Look at events
    #[command(subcommand)]
    Event(EventCommand),
    /// Look at DEAD events, send them out again, or delete them
    #[command(subcommand)]
    Dead(DeadCommand),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Purge(PurgeArgs),
    Audit(AuditArgs),
    /// Create, upgrade and check the outbox table
    #[command(subcommand)]
    Migrate(MigrateCommand),
    Demo(DemoArgs),
    #[cfg(feature = "bench")]
    Bench(posthaste_bench::BenchArgs),
}

/// Delete old DONE, DEAD or archived events, or move them to the archive
///
/// JSON: as of `dead replay`, with "action": "purge"; "exact" is false if there are so many events
/// that only a part was counted
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste purge --done --older-than 7d --dry-run
  posthaste purge --dead --older-than 90d --archive --yes
  posthaste purge --archived --older-than 365d")]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    pub(crate) what: PurgeStatusArgs,

    /// Events that have been DONE or DEAD at least so long, such as 7d, 12h or '1month 3days'
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Duration,

    /// Move them to the archive instead of deleting them
    #[arg(long)]
    pub(crate) archive: bool,

    #[command(flatten)]
    pub(crate) consent: ConsentArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PurgeStatusArgs {
    /// Events that were delivered
    #[arg(long)]
    pub(crate) done: bool,

    /// Events that were given up
    #[arg(long)]
    pub(crate) dead: bool,

    /// Events in the archive; PostgreSQL drops whole days of it
    #[arg(long, conflicts_with = "archive")]
    pub(crate) archived: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Create the outbox table, or bring it up to date; a missing SQLite file is created, and Redis has none
    ///
    /// JSON: {"table", "applied": [{"version", "name"}]}
    Apply(MigrateArgs),
    /// Print the SQL, for those who apply it by other means
    ///
    /// JSON: {"sql"}
    Print(MigrateArgs),
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Upgrade a table that another program made; the statements that rewrite it are printed first
    #[arg(long)]
    pub(crate) adopt: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Say whether the outbox table is up to date
///
/// JSON: {"table", "state": "current|missing|behind|newer|foreign", "version": number or null,
/// "latest": number or null, "advice": text or null}
///
/// Exit code 0 if it is up to date, 1 if not.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The events that a change is meant for.
#[derive(Debug, Args)]
pub(crate) struct EventSelection {
    #[command(flatten)]
    pub(crate) named: SelectedIds,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct SelectedIds {
    /// The ids of the events
    #[arg(value_name = "ID", conflicts_with = "FilterArgs")]
    pub(crate) ids: Vec<String>,

    /// All DEAD events that match the filters
    #[arg(long)]
    pub(crate) all: bool,
}

/// Which events; every condition counts.
#[derive(Debug, Default, Args)]
pub(crate) struct FilterArgs {
    /// Only this event type
    #[arg(long = "type", value_name = "TYPE", help_heading = FilterArgs::HEADING)]
    pub(crate) event_type: Option<String>,

    /// Only this aggregate type
    #[arg(long, value_name = "TYPE", help_heading = FilterArgs::HEADING)]
    pub(crate) aggregate_type: Option<String>,

    /// Only this aggregate id
    #[arg(long, value_name = "ID", help_heading = FilterArgs::HEADING)]
    pub(crate) aggregate_id: Option<String>,

    /// Only this tenant
    #[arg(long, value_name = "ID", help_heading = FilterArgs::HEADING)]
    pub(crate) tenant: Option<String>,

    /// Only events whose error contains this text
    #[arg(long, value_name = "TEXT", help_heading = FilterArgs::HEADING)]
    pub(crate) error: Option<String>,

    /// Only events that died at least so long ago, such as 7d or 12h; of others, that were done or
    /// inserted so long ago
    #[arg(long, value_name = "DURATION", help_heading = FilterArgs::HEADING, value_parser = humantime::parse_duration)]
    pub(crate) older_than: Option<Duration>,
}

impl FilterArgs {
    pub(crate) const HEADING: &str = "Filters";

    pub(crate) fn dead(&self) -> Filter {
        self.with(Some(Status::Dead))
    }

    /// These conditions, and a status.
    pub(crate) fn with(&self, status: Option<Status>) -> Filter {
        Filter {
            status,
            event_type: self.event_type.clone(),
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
            tenant_id: self.tenant.clone(),
            error_contains: self.error.clone(),
            older_than: self.older_than,
            ..Filter::default()
        }
    }
}

/// Whether a change that touches many events goes ahead.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConsentArgs {
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Only say what would change
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

impl ConsentArgs {
    pub(crate) fn actor(&self) -> String {
        self.actor.name()
    }
}

/// Who changes something.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ActorArgs {
    /// Who asks, for the store's record of what operators did [default: cli:$USER]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

impl ActorArgs {
    pub(crate) fn name(&self) -> String {
        let user = || ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
        match (&self.actor, user()) {
            (Some(actor), _) => actor.clone(),
            (None, Some(user)) => format!("cli:{user}"),
            (None, None) => "cli".to_owned(),
        }
    }
}

/// Which page of a list.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PageArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value = "20", value_parser = parse_limit)]
    limit: usize,

    /// Continue after this number, which the page before has named
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    after: Option<i64>,
}

impl PageArgs {
    pub(crate) fn request(self) -> PageRequest {
        PageRequest { after: self.after, limit: self.limit }
    }
}

impl SelectedIds {
    /// Each id once, in the order in which they were typed.
    pub(crate) fn ids(&self) -> Vec<EventId> {
        let mut ids: Vec<EventId> = Vec::new();
        for id in self.ids.iter().map(|id| EventId::from(id.as_str())) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}

/// So many entries as a page can have.
pub(crate) fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit @ 1..=PageRequest::MAX_LIMIT) => Ok(limit),
        _ => Err(format!("a number from 1 to {}", PageRequest::MAX_LIMIT)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_contradict_each_other_nowhere() {
        Cli::command().debug_assert();
    }
}
