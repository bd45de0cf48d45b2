//! The commands, one module each. Commands for operators use only [`posthaste::Admin`] and do not depend on a database;
//! `demo` and `bench` bring their own.

mod audit;
#[cfg(feature = "bench")]
mod bench;
mod config;
mod dead;
mod doctor;
mod event;
mod migrate;
mod purge;
mod relay;
mod route;
mod shared;
mod status;
mod tail;
mod top;

use std::process::ExitCode;

use clap::Subcommand;

use self::audit::AuditArgs;
use self::config::ConfigCommand;
use self::dead::DeadCommand;
use self::doctor::DoctorArgs;
use self::event::EventCommand;
use self::migrate::MigrateCommand;
use self::purge::PurgeArgs;
use self::relay::RelayArgs;
use self::route::RouteArgs;
use self::status::StatusArgs;
use self::tail::TailArgs;
use self::top::TopArgs;
use crate::demo::DemoArgs;
use crate::output::Output;

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
    /// Stop the deliveries of a route, on every engine
    ///
    /// The events of the route are parked until `posthaste resume`; they lose no attempt. Any name is accepted, because
    /// only engines know which routes exist.
    ///
    /// JSON: {"action": "pause", "route", "changed": false if it was paused already}
    #[command(
        after_help = "Examples:\n  posthaste pause mail\n  posthaste pause mail --actor ann --output json"
    )]
    Pause(RouteArgs),
    /// Start the deliveries of a paused route again
    ///
    /// JSON: {"action": "resume", "route", "changed": false if it was not paused}
    #[command(after_help = "Examples:\n  posthaste resume mail")]
    Resume(RouteArgs),
    Purge(PurgeArgs),
    Audit(AuditArgs),
    /// Create, upgrade and check the outbox table
    #[command(subcommand)]
    Migrate(MigrateCommand),
    Demo(DemoArgs),
    #[cfg(feature = "bench")]
    Bench(posthaste_bench::BenchArgs),
}

pub(crate) async fn run(command: Command, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        Command::Relay(args) => relay::run(args).await,
        Command::Config(command) => config::run(command, output),
        Command::Tail(args) => tail::run(args, output).await,
        Command::Top(args) => top::run(args, output).await,
        Command::Status(args) => status::run(args, output).await,
        Command::Doctor(args) => doctor::run(args, output).await,
        Command::Event(command) => event::run(command, output).await,
        Command::Dead(command) => dead::run(command, output).await,
        Command::Pause(args) => route::pause(args, output).await,
        Command::Resume(args) => route::resume(args, output).await,
        Command::Purge(args) => purge::run(args, output).await,
        Command::Audit(args) => audit::run(args, output).await,
        Command::Migrate(command) => migrate::run(command, output).await,
        Command::Demo(args) => crate::demo::run(args, output).await,
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(args, output).await,
    }
}
