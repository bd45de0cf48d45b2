//! The commands, one module each. Those for operators speak to [`posthaste::Admin`] and know no
//! database; `demo` and `bench` bring their own.

pub(crate) mod bench;
mod bulk;
mod dead;
pub(crate) mod demo;
mod event;
mod figures;
mod migrate;
mod purge;
mod status;

use std::process::ExitCode;

use crate::args::Command;
use crate::output::Output;

pub(crate) async fn run(command: Command, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        Command::Status(args) => status::run(args, output).await,
        Command::Event(command) => event::run(command, output).await,
        Command::Dead(command) => dead::run(command, output).await,
        Command::Purge(args) => purge::run(args, output).await,
        Command::Migrate(command) => migrate::run(command, output).await,
        Command::Demo(args) => demo::run(args, output).await,
        Command::Bench(args) => bench::run(args, output).await,
    }
}
