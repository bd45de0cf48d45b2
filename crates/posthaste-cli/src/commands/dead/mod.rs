//! `posthaste dead`: lists, replays and discards DEAD events.

mod args;
mod canary;
mod list;
mod replay_and_discard;

use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use posthaste::Status;

use crate::commands::event::{self, ShowArgs};
use crate::connect;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    List(list::DeadListArgs),
    /// The same as `event show`, but fails if the event is not DEAD
    Show(ShowArgs),
    Replay(args::ReplayArgs),
    Discard(args::DiscardArgs),
}

pub(crate) async fn run(command: DeadCommand, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        DeadCommand::List(args) => list::run(args, output).await,
        DeadCommand::Show(args) => show(args, output).await,
        DeadCommand::Replay(args) => replay_and_discard::replay(args, output).await,
        DeadCommand::Discard(args) => replay_and_discard::discard(args, output).await,
    }
}

async fn show(args: ShowArgs, output: Output) -> anyhow::Result<ExitCode> {
    let id = args.id.into();
    let detail =
        connect::with_admin(&args.store.spec()?, async |admin| event::find(admin, &id).await).await?;
    let status = detail.row.status;
    if status != Status::Dead {
        bail!("the event {} is not DEAD but {status}: look at it with `posthaste event show`", detail.row.id);
    }
    output.print(&event::EventReport::from(&detail))?;
    Ok(ExitCode::SUCCESS)
}
