//! The project's own commands: `cargo xtask test`, `services`, `tidy`, `api` and `bench`.

mod bench;
mod cargo;
mod rustdoc;
mod services;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <command>

  test [options] [name]  run everything that must pass before a merge, or only tests with `name` in their name
      --jobs <n>         test programs that run at the same time; default: 3
      --quick            only tidy and the tests that need no server, with a short simulation
      --step <name>      only the steps with this in their name: tests, clippy, documentation, features, …
      --package <name>   only the tests of this package
      --test <name>      only the test programs of this name
  services up|down|env   start real servers for tests, stop them, print their variables
  tidy [--lower]         check the rules that no compiler checks; --lower lowers the counts of the wording rule
  api                    write the public API of the libraries to docs/internal/api, which tidy compares
  bench <name> [args…]   run a benchmark in release mode with these arguments
";

fn main() -> ExitCode {
    if let Some(exit_code) = rustdoc::run_if_called() {
        return exit_code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let passed = match args.as_slice() {
        ["test", args @ ..] => match test::Options::parse(args) {
            Some(options) => test::run(&options),
            None => return usage(),
        },
        ["services", "up"] => succeeds(services::up()),
        ["services", "down"] => succeeds(services::down()),
        ["services", "env"] => succeeds(services::env()),
        ["tidy"] => tidy::run(),
        ["tidy", "--lower"] => tidy::lower_wording(),
        ["api"] => tidy::write_api(),
        ["bench", name, args @ ..] => bench::run(name, args),
        _ => return usage(),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

fn succeeds(result: Result<(), String>) -> bool {
    result.map_err(|error| eprintln!("{error}")).is_ok()
}
