//! The program `posthaste`: the relay, and the commands of operators. `commands/mod.rs` lists the commands.
//!
//! Exit codes: 0 success, 1 a failure or something to do, 2 wrong usage.
//!
//! Without the feature `full` the program contains only the demo, which needs no server and no broker and builds in a
//! minute. `cargo demo` builds that.

#[cfg(feature = "full")]
mod args;
mod cli;
#[cfg(all(test, feature = "bench"))]
mod command_reference;
#[cfg(feature = "full")]
mod commands;
#[cfg(feature = "full")]
mod connect;
mod demo;
#[cfg(not(feature = "full"))]
mod demo_program;
#[cfg(feature = "full")]
mod errors;
#[cfg(feature = "full")]
mod full_program;
#[cfg(feature = "full")]
mod logging;
mod output;
#[cfg(feature = "full")]
mod relay_args;
#[cfg(feature = "full")]
mod relay_token;
mod stop;
#[cfg(feature = "full")]
mod store_args;

use std::process::ExitCode;

#[cfg(not(feature = "full"))]
use demo_program as program;
#[cfg(feature = "full")]
use full_program as program;

fn main() -> ExitCode {
    program::main()
}
