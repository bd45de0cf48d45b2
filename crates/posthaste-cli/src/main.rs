//! The command line of Posthaste: `posthaste status`, `event`, `dead`, `purge`, `migrate`,
//! `demo` and `bench`.
//!
//! Here are the exit codes: 0 it worked, 1 it failed or there is something to do, 2 wrong usage.

mod args;
mod commands;
mod connect;
mod escape;
mod failure;
mod json_text;
mod output;
mod place;
mod progress;
mod redact;
mod store_url;
mod views;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::{Cli, Command};

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

#[tokio::main]
async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    commands::run(cli.command, cli.output).await
}

/// To stderr, warnings and worse; `RUST_LOG` asks for more. In the demo things go wrong on purpose, and
/// the benchmark overloads engines and ends them in the middle of their work.
fn start_logging(command: &Command) {
    let usual = match command {
        Command::Demo(_) | Command::Bench(_) => "off",
        _ => "warn",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    // A log line that cannot be written must not become a panic: stderr may be closed.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false)
        .init();
}
