//! The command line (clap): the options that all commands have, and the help of the program.

use clap::Parser;

#[cfg(feature = "full")]
use crate::commands::Command;
use crate::output::Output;

#[cfg(feature = "full")]
const HELP_EXAMPLES: &str = "\
Examples:
  export POSTHASTE_STORE=postgres://shop@db.example/shop
  posthaste migrate apply                    create the outbox table
  posthaste relay --publish kafka://broker:9092/orders
  posthaste status                           what waits, what is late, what died
  posthaste top                              the same and more, live on one screen
  posthaste doctor                           why it is slow or stuck, and what to do
  posthaste dead list                        what died and why
  posthaste dead replay --all --type OrderPlaced --error timeout
  posthaste pause mail                       stop the deliveries of a route, on every engine
  posthaste purge --done --older-than 7d
  posthaste demo                             see it work, with nothing to install
  posthaste bench --store sqlite:bench.db    how fast it is on this machine

Exit codes: 0 it worked, 1 it failed or there is something to do, 2 wrong usage.
Logs go to stderr; RUST_LOG=debug shows more of them.";

/// Looks after a Posthaste outbox: shows what is pending, late or dead and why, and delivers it
#[derive(Debug, Parser)]
#[command(name = "posthaste", version)]
#[cfg_attr(feature = "full", command(after_help = HELP_EXAMPLES))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Tables for people, or one line of JSON for programs
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// The only command of the program that `cargo demo` builds.
#[cfg(not(feature = "full"))]
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Demo(crate::demo::DemoArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_contradict_each_other_nowhere() {
        Cli::command().debug_assert();
    }
}
