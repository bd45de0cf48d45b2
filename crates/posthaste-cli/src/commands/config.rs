//! `posthaste config`: checks and shows the configuration of a relay.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use posthaste_relay::config::{self, Problem, Problems, RelayConfig};
use serde::Serialize;

use crate::errors::say;
use crate::output::{Output, Report};
use crate::relay_args::ConfigArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report every mistake in the configuration of a relay, without connecting to anything
    ///
    /// JSON: {"good", "problems": [{"source": the file, variable or option, "line", "column": numbers from 1 or null,
    /// "setting", "what"}]}
    ///
    /// Exit code 0 if the configuration is correct, 1 if not.
    #[command(after_help = "\
Examples:
  posthaste config check --config posthaste.toml
  posthaste config check --store postgres://shop@db.example/shop --publish 'Order.*=kafka://broker:9092/orders'")]
    Check(Box<ConfigArgs>),
    /// Print the configuration as a relay would use it: with defaults, and with overrides from the environment
    ///
    /// Users, passwords and tokens are shown as ***.
    ///
    /// JSON: the same document as the TOML.
    Show(Box<ConfigArgs>),
}

pub(crate) fn run(command: ConfigCommand, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check(args) => check(&args, output),
        ConfigCommand::Show(args) => show(&args, output),
    }
}

fn check(args: &ConfigArgs, output: Output) -> anyhow::Result<ExitCode> {
    let source = args.source()?;
    match source.load() {
        Ok(config) => {
            output.print(&ConfigCheckReport {
                good: true,
                problems: Vec::new(),
                text: good(&source.name(), &config),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            refuse(&problems, output)?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn refuse(problems: &Problems, output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        let problems = problems.iter().collect();
        return output.print(&ConfigCheckReport { good: false, problems, text: String::new() });
    }
    say(&problems.to_string());
    Ok(())
}

fn good(source: &str, config: &RelayConfig) -> String {
    let routes: usize = config.outboxes.iter().map(|outbox| outbox.routes.len()).sum();
    let outboxes = config.outboxes.len();
    let outboxes = format!("{outboxes} {}", if outboxes == 1 { "outbox" } else { "outboxes" });
    format!("{source} is good: {outboxes}, {routes} {}", if routes == 1 { "route" } else { "routes" })
}

fn show(args: &ConfigArgs, output: Output) -> anyhow::Result<ExitCode> {
    let config = args.source()?.load()?;
    let document = config::shown(&config);
    let text = toml::to_string(&document).context("the configuration cannot be written as TOML")?;
    output.print(&ConfigReport { document, text })?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Serialize)]
struct ConfigCheckReport<'a> {
    good: bool,
    problems: Vec<&'a Problem>,
    #[serde(skip)]
    text: String,
}

impl Report for ConfigCheckReport<'_> {
    fn text(&self) -> String {
        self.text.clone()
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ConfigReport {
    document: toml::Table,
    #[serde(skip)]
    text: String,
}

impl Report for ConfigReport {
    fn text(&self) -> String {
        self.text.clone()
    }
}
