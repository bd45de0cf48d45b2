//! The program with everything.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use posthaste_sqlx::foreign::AUDIT;

use crate::cli::Cli;
use crate::commands::Command;
use crate::{commands, errors, logging};

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return errors::answer(&answer),
    };
    start_logging(&cli.command);
    match run(cli) {
        Ok(code) => code,
        Err(error) => errors::report(&error),
    }
}

/// What still blocks at the end, a pipe without a reader or a name that is being looked up, is left behind: a program
/// that is told to end must end.
fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
    let ended = runtime.block_on(commands::run(cli.command, cli.output));
    runtime.shutdown_background();
    ended
}

/// In the demo things go wrong on purpose, and the benchmark overloads engines and ends them in the middle of their
/// work. The doctor's result is in its findings, and what clients of brokers log beside them is noise. A relay reads
/// its configuration first, which says how it logs.
fn start_logging(command: &Command) {
    match command {
        Command::Demo(_) | Command::Doctor(_) => logging::start("off"),
        #[cfg(feature = "bench")]
        Command::Bench(_) => logging::start("off"),
        Command::Relay(_) => {}
        // Lines would be drawn across its screen, and stay there.
        Command::Top(_) if std::io::IsTerminal::is_terminal(&std::io::stderr()) => {}
        // What operators do with a table that has no audit is logged, and must be seen.
        _ => logging::start(&format!("warn,{AUDIT}=info")),
    }
}
