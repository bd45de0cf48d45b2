//! The project's own commands: `cargo xtask test`, `services`, `tidy` and `bench`.

mod bench;
mod services;
mod shell;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <command>

  test [--quick]         everything that must pass before a merge; --quick: tests and tidy alone
  services up|down|env   real servers for tests: start them, stop them, print their variables
  tidy                   the rules that no compiler checks
  bench <name> [args…]   a benchmark, in release mode; the arguments are the benchmark's own
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let passed = match args.as_slice() {
        ["test"] => test::run(test::Scope::Full),
        ["test", "--quick"] => test::run(test::Scope::Quick),
        ["services", "up"] => succeeds(services::up()),
        ["services", "down"] => succeeds(services::down()),
        ["services", "env"] => succeeds(services::env()),
        ["tidy"] => tidy::run(),
        ["bench", name, args @ ..] => bench::run(name, args),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn succeeds(result: Result<(), String>) -> bool {
    result.map_err(|error| eprintln!("{error}")).is_ok()
}
