//! The commands, one module each. Those for operators speak to [`posthaste::Admin`] and know no
//! database; `demo` and `bench` bring their own.

pub(crate) mod audit;
pub(crate) mod bench;
mod bulk;
#[cfg(feature = "relay")]
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod event;
mod figures;
mod listing;
mod migrate;
mod pace;
mod purge;
#[cfg(feature = "relay")]
pub(crate) mod relay;
pub(crate) mod route;
pub(crate) mod status;
#[cfg(feature = "relay")]
pub(crate) mod tail;
#[cfg(feature = "relay")]
pub(crate) mod top;

use std::process::ExitCode;

use crate::args::Command;
use crate::output::Output;

#[cfg(feature = "relay")]
pub(crate) use self::dead::Verb;

pub(crate) async fn run(command: Command, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        #[cfg(feature = "relay")]
        Command::Relay(args) => relay::run(args).await,
        #[cfg(feature = "relay")]
        Command::Config(command) => config::run(command, output),
        #[cfg(feature = "relay")]
        Command::Tail(args) => tail::run(args, output).await,
        #[cfg(feature = "relay")]
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
        Command::Demo(args) => demo::run(args, output).await,
        Command::Bench(args) => bench::run(args, output).await,
    }
}
