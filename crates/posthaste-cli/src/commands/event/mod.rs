//! `posthaste event`: lists events of any status, or shows one.

mod list;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

use crate::output::Output;
pub(super) use show::{EventReport, ShowArgs, find};

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    List(list::EventListArgs),
    Show(ShowArgs),
}

pub(crate) async fn run(command: EventCommand, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        EventCommand::List(args) => list::run(args, output).await,
        EventCommand::Show(args) => show::run(args, output).await,
    }
}
