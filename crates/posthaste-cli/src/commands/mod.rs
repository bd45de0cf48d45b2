//! The commands, one module each. Those for operators speak to [`posthaste::Admin`] and know no
//! database; `demo` and `bench` bring their own.

pub(crate) mod audit;
mod batch_rate;
#[cfg(feature = "bench")]
mod bench;
mod bulk_change;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod doctor;
pub(crate) mod event;
mod findings;
mod listing;
mod migrate;
mod purge;
pub(crate) mod relay;
pub(crate) mod route;
pub(crate) mod status;
pub(crate) mod tail;
pub(crate) mod top;

use std::process::ExitCode;

use crate::args::Command;
use crate::output::Output;

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
