//! The program with all commands.

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
        Err(error) => return errors::print_clap(&error),
    };
    start_logging(&cli.command);
    match run(cli) {
        Ok(code) => code,
        Err(error) => errors::report(&error),
    }
}

/// Runs the command. At the end, whatever still blocks is abandoned, such as a read from a pipe or a name lookup: a
/// program that was asked to stop must not hang.
fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
    let ended = runtime.block_on(commands::run(cli.command, cli.output));
    runtime.shutdown_background();
    ended
}

/// Starts the log of the command. The demo provokes failures and the benchmark overloads engines and aborts them, so
/// their logs would only be noise. The result of the doctor is in its findings, not in the logs of broker clients. The
/// relay reads its configuration first, because that sets up its log.
fn start_logging(command: &Command) {
    match command {
        Command::Demo(_) | Command::Doctor(_) => logging::start("off"),
        #[cfg(feature = "bench")]
        Command::Bench(_) => logging::start("off"),
        Command::Relay(_) => {}
        // Log lines would be drawn across its screen and stay there.
        Command::Top(_) if std::io::IsTerminal::is_terminal(&std::io::stderr()) => {}
        // Changes by an operator to a table without an audit are logged, and must be visible by default.
        _ => logging::start(&format!("warn,{AUDIT}=info")),
    }
}
