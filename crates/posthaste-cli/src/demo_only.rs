//! The program with the demo alone.

use std::process::ExitCode;

use clap::Parser;

use crate::demo::{self, DemoArgs};
use crate::output::{Output, StdoutClosed};

#[derive(Debug, Parser)]
#[command(name = "posthaste", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Tables for people, or one JSON document on one line for programs
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Demo(DemoArgs),
}

pub(crate) fn main() -> ExitCode {
    let Cli { command: Command::Demo(args), output } = Cli::parse();
    let ended = tokio::runtime::Runtime::new().map_err(anyhow::Error::from);
    match ended.and_then(|runtime| runtime.block_on(demo::run(args, output))) {
        Ok(code) => code,
        Err(error) if error.is::<StdoutClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
