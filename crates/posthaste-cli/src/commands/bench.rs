//! `posthaste bench`: how fast a store is on this machine.

use std::process::ExitCode;

use posthaste_bench::{BenchArgs, BenchReport};

use crate::output::{Output, Report};

pub(crate) async fn run(args: BenchArgs, output: Output) -> anyhow::Result<ExitCode> {
    output.print(&posthaste_bench::run(args, output.is_watched()).await?)?;
    Ok(ExitCode::SUCCESS)
}

impl Report for BenchReport {
    fn text(&self) -> String {
        self.to_string()
    }
}
