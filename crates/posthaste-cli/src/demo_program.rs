//! The program that `cargo demo` builds: the demo is its only command.

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::demo::{self, DemoArgs};
use crate::output::{Output, StdoutClosed};

pub(crate) fn main() -> ExitCode {
    let Cli { command: Command::Demo(args), output } = clap::Parser::parse();
    match run(args, output) {
        Ok(code) => code,
        Err(error) if error.is::<StdoutClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: DemoArgs, output: Output) -> anyhow::Result<ExitCode> {
    tokio::runtime::Runtime::new()?.block_on(demo::run(args, output))
}
