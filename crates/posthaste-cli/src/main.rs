//! The command line of Posthaste: the relay, and what those need who look after an outbox. `args.rs` lists the
//! commands.
//!
//! Here are the exit codes: 0 it worked, 1 it failed or there is something to do, 2 wrong usage.

#[cfg(feature = "relay")]
mod api;
mod args;
#[cfg(feature = "relay")]
mod client;
mod commands;
#[cfg(feature = "relay")]
mod config;
mod connect;
mod escape;
mod failure;
mod json_text;
mod logging;
mod output;
mod place;
mod progress;
mod redact;
#[cfg(feature = "relay")]
mod relay;
#[cfg(feature = "relay")]
mod secret;
mod stop;
mod store_args;
mod store_spec;
mod store_url;
mod views;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use args::{Cli, Command};
use posthaste_sqlx::foreign::AUDIT;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return failure::answer(&answer),
    };
    start_logging(&cli.command);
    match run(cli) {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}

/// What still blocks at the end, a pipe that nobody reads or a name that is being looked up, is left behind:
/// whoever ends the program shall see it end.
fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
    let ended = runtime.block_on(commands::run(cli.command, cli.output));
    runtime.shutdown_background();
    ended
}

/// In the demo things go wrong on purpose, and the benchmark overloads engines and ends them in the middle
/// of their work. What the doctor has to say stands in its findings, and what clients of brokers log beside them is
/// noise. A relay reads its configuration first, which says how it logs.
fn start_logging(command: &Command) {
    match command {
        Command::Demo(_) | Command::Bench(_) | Command::Doctor(_) => logging::start_quiet("off"),
        #[cfg(feature = "relay")]
        Command::Relay(_) => {}
        // Lines would stand across its screen, and stay there.
        #[cfg(feature = "relay")]
        Command::Top(_) if std::io::IsTerminal::is_terminal(&std::io::stderr()) => {}
        // What operators do with a table that has no audit is logged, and must be seen.
        _ => logging::start_quiet(&format!("warn,{AUDIT}=info")),
    }
}
