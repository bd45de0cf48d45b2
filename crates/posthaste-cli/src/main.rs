//! The program `posthaste`: the relay, and what people need who look after an outbox. `commands/mod.rs` lists the commands.
//!
//! Here are the exit codes: 0 it worked, 1 it failed or there is something to do, 2 wrong usage.
//!
//! Without the feature `full` the program has the demo alone, which needs no server and no broker and is built in a
//! minute: `cargo demo` does that.

#[cfg(feature = "full")]
mod all_commands;
#[cfg(feature = "full")]
mod args;
#[cfg(feature = "full")]
mod cli;
#[cfg(feature = "full")]
mod commands;
#[cfg(feature = "full")]
mod connect;
mod demo;
#[cfg(not(feature = "full"))]
mod demo_only;
#[cfg(feature = "full")]
mod errors;
mod figures;
#[cfg(feature = "full")]
mod logging;
mod output;
#[cfg(feature = "full")]
mod progress;
#[cfg(feature = "full")]
mod relay_args;
#[cfg(feature = "full")]
mod relay_token;
mod stop;
#[cfg(feature = "full")]
mod store_args;

use std::process::ExitCode;

#[cfg(feature = "full")]
use all_commands as program;
#[cfg(not(feature = "full"))]
use demo_only as program;

fn main() -> ExitCode {
    program::main()
}
