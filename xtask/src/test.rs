//! `cargo xtask test`: everything that must pass before a merge, stopping at the first failure.

use std::time::Instant;

use crate::services::{self, ForRun};
use crate::shell::Cargo;
use crate::tidy;

/// How much of the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every step, the tests with real servers.
    Full,
    /// Library and integration tests with a short simulation and without servers, and tidy.
    Quick,
}

pub(crate) fn run(scope: Scope) -> bool {
    match scope {
        Scope::Quick => match services::install_libraries() {
            Ok(()) => run_steps(scope, &[], Report::default()),
            Err(error) => {
                println!("FAILED: not everything can be built.\n{error}");
                false
            }
        },
        // First of all: a machine that cannot have them shall not build for minutes to say so.
        Scope::Full => match ForRun::start() {
            Ok(servers) => run_steps(scope, servers.variables(), Report::with_notes(servers.notes())),
            Err(error) => {
                println!("FAILED: the tests need real servers.\n{error}");
                false
            }
        },
    }
}

/// `servers` are the variables by which tests find them.
fn run_steps(scope: Scope, servers: &[(String, String)], mut report: Report) -> bool {
    let failed = steps(scope).into_iter().find(|step| !step.run(servers, &mut report));
    if let Some(step) = &failed {
        println!("\nFAILED: {}. To run it alone:", step.name);
        if matches!(step.work, Work::ServerTests(_)) {
            println!("    cargo xtask services up && eval \"$(cargo xtask services env)\"");
        }
        println!("    {}", step.work);
    }
    report.print();
    failed.is_none()
}

struct Step {
    name: &'static str,
    work: Work,
}

enum Work {
    Cargo(Cargo),
    /// A cargo command of a component that a toolchain may lack.
    Component(&'static str, Cargo),
    /// Cargo's tests, counted.
    Tests(Cargo),
    /// The same with the servers' variables in the environment.
    ServerTests(Cargo),
    Tidy,
}

fn steps(scope: Scope) -> Vec<Step> {
    let step = |name, work| Step { name, work };
    let tidy = step("tidy", Work::Tidy);
    if scope == Scope::Quick {
        let tests = test_all("--lib --tests").env("POSTHASTE_SIM_SEEDS", "50");
        return vec![step("tests, quick", Work::Tests(tests)), tidy];
    }

    let fmt = Cargo::new("fmt --all --check");
    let clippy = Cargo::new("clippy --locked --workspace --all-targets --all-features")
        .args(&["--", "-D", "warnings"]);
    let doc =
        Cargo::new("doc --locked --workspace --no-deps --all-features").env("RUSTDOCFLAGS", "-D warnings");
    let core = Cargo::new("check --locked -p posthaste --no-default-features");
    let sqlx = Cargo::new("check --locked -p posthaste-sqlx --no-default-features");
    // Ignored tests are those that need a server. Not so in documentation: those are not complete.
    let tests = test_all("--lib --bins --tests --examples").args(&["--", "--include-ignored"]);
    let diesel = Cargo::new("check --locked -p posthaste-diesel --no-default-features");
    let publishers = Cargo::new("check --locked -p posthaste-publishers --no-default-features");
    let with = |feature| core.clone().args(&["--features", feature]);
    vec![
        step("format", Work::Component("rustfmt", fmt)),
        step("clippy", Work::Component("clippy", clippy)),
        step("tests", Work::ServerTests(tests)),
        step("doc tests", Work::Tests(test_all("--doc"))),
        step("documentation", Work::Cargo(doc)),
        step("core without features", Work::Cargo(core.clone())),
        step("core with serde alone", Work::Cargo(with("serde"))),
        step("core with conformance alone", Work::Cargo(with("conformance"))),
        step("core with opentelemetry alone", Work::Cargo(with("opentelemetry"))),
        step("sqlx without features", Work::Cargo(sqlx.clone())),
        step("sqlx with mysql alone", Work::Cargo(sqlx.clone().args(&["--features", "mysql"]))),
        step("sqlx with postgres alone", Work::Cargo(sqlx.clone().args(&["--features", "postgres"]))),
        step("sqlx with sqlite alone", Work::Cargo(sqlx.args(&["--features", "sqlite"]))),
        step("publishers without features", Work::Cargo(publishers.clone())),
        step("publishers with http alone", Work::Cargo(publishers.clone().args(&["--features", "http"]))),
        step("publishers with lines alone", Work::Cargo(publishers.args(&["--features", "lines"]))),
        step(
            "redis without features",
            Work::Cargo(Cargo::new("check --locked -p posthaste-redis --no-default-features")),
        ),
        step(
            "sea-orm without features",
            Work::Cargo(Cargo::new("check --locked -p posthaste-sea-orm --no-default-features")),
        ),
        step("diesel without features", Work::Cargo(diesel.clone())),
        step("diesel with sqlite alone", Work::Cargo(diesel.clone().args(&["--features", "sqlite"]))),
        step("diesel with async-postgres alone", Work::Cargo(diesel.args(&["--features", "async-postgres"]))),
        // What `cargo demo` builds.
        step(
            "command line without publishers",
            Work::Cargo(Cargo::new("check --locked -p posthaste-cli --no-default-features")),
        ),
        // The benchmark beside other crates is a workspace of its own, which nothing here builds. A dependency that is
        // new to one of our crates would leave it with a lock file with which it cannot be built.
        step("lock file of the peers", Work::Cargo(Cargo::new(PEERS_LOCK))),
        tidy,
    ]
}

/// Resolves the workspace against its lock file, in a second; builds nothing.
const PEERS_LOCK: &str = "update --workspace --locked --manifest-path bench/peers/Cargo.toml";

/// Goes on after a failing test binary, so that the counts are of all of them.
fn test_all(targets: &str) -> Cargo {
    Cargo::new("test --locked --no-fail-fast --workspace --all-features")
        .args(&targets.split(' ').collect::<Vec<_>>())
}

impl Step {
    fn run(&self, servers: &[(String, String)], report: &mut Report) -> bool {
        println!("\n=== {}: {}", self.name, self.work);
        let started = Instant::now();
        let passed = match &self.work {
            Work::Cargo(cargo) => cargo.run(),
            Work::Component(component, cargo) => {
                if is_installed(cargo) {
                    cargo.run()
                } else {
                    report.leave_out(component);
                    return true;
                }
            }
            Work::Tests(cargo) => cargo.run_and_see(|line| report.count(line)),
            Work::ServerTests(cargo) => cargo.clone().envs(servers).run_and_see(|line| report.count(line)),
            Work::Tidy => tidy::run(),
        };
        let verdict = if passed { "ok" } else { "failed" };
        println!("=== {}: {verdict} in {:.1} s", self.name, started.elapsed().as_secs_f64());
        passed
    }
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cargo(cargo)
            | Self::Component(_, cargo)
            | Self::Tests(cargo)
            | Self::ServerTests(cargo) => cargo.fmt(f),
            Self::Tidy => f.write_str("cargo xtask tidy"),
        }
    }
}

/// Asks for the version only: building tells nothing about the component.
fn is_installed(cargo: &Cargo) -> bool {
    cargo.subcommand().arg("--version").output().is_ok()
}

/// What is said once more at the end.
#[derive(Default, Debug)]
struct Report {
    passed: u64,
    failed: u64,
    left_out: Vec<String>,
}

impl Report {
    /// With what the servers have to say: a test that ran without the real one is as good as left out.
    fn with_notes(notes: &[String]) -> Self {
        notes.iter().for_each(|note| println!("{note}"));
        Self { left_out: notes.to_vec(), ..Self::default() }
    }

    fn count(&mut self, line: &str) {
        if let Some((passed, failed)) = test_result(line) {
            self.passed += passed;
            self.failed += failed;
        }
    }

    fn leave_out(&mut self, component: &str) {
        let line = format!("LEFT OUT: {component} is not installed here (rustup component add {component})");
        println!("{line}");
        self.left_out.push(line);
    }

    fn print(&self) {
        println!();
        for line in &self.left_out {
            println!("{line}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
    }
}

/// Reads `test result: ok. 3 passed; 0 failed; …`.
fn test_result(line: &str) -> Option<(u64, u64)> {
    let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = counts.split("; ");
    let passed = counts.next()?.strip_suffix(" passed")?;
    let failed = counts.next()?.strip_suffix(" failed")?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_runs_are_added() {
        let mut report = Report::default();
        for line in [
            "running 3 tests\n",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n",
            "test result: unknown\n",
            "it says test result: ok. 9 passed; 9 failed;\n",
        ] {
            report.count(line);
        }
        assert_eq!((report.passed, report.failed), (7, 2));
    }

    #[test]
    fn missing_component_is_named_with_its_remedy() {
        let mut report = Report::default();
        report.leave_out("clippy");
        assert_eq!(report.left_out, ["LEFT OUT: clippy is not installed here (rustup component add clippy)"]);
    }

    #[test]
    fn unknown_subcommand_is_not_installed() {
        assert!(!is_installed(&Cargo::new("no-such-subcommand --all")));
    }

    #[test]
    fn every_step_but_format_keeps_the_lock_file() {
        for step in [steps(Scope::Full), steps(Scope::Quick)].into_iter().flatten() {
            let command = step.work.to_string();
            let exempt = matches!(step.name, "format" | "tidy");
            assert_eq!(command.contains("--locked"), !exempt, "{command}");
        }
    }

    #[test]
    fn lock_file_of_a_benchmark_cannot_fall_behind_unseen() {
        let steps = steps(Scope::Full);
        assert!(steps.iter().any(|step| step.work.to_string().ends_with("bench/peers/Cargo.toml")));
    }

    #[test]
    fn doc_tests_run_in_one_step_only() {
        let doc_steps = steps(Scope::Full).into_iter().filter(|step| {
            let command = step.work.to_string();
            let is_test = matches!(step.work, Work::Tests(_) | Work::ServerTests(_));
            is_test && (command.contains("--doc") || !command.contains("--lib"))
        });
        assert_eq!(doc_steps.count(), 1);
    }

    #[test]
    fn ignored_tests_run_where_the_servers_are_and_nowhere_else() {
        for step in [steps(Scope::Full), steps(Scope::Quick)].into_iter().flatten() {
            let command = step.work.to_string();
            let has_servers = matches!(step.work, Work::ServerTests(_));
            assert_eq!(command.ends_with(" -- --include-ignored"), has_servers, "{command}");
            assert!(!(has_servers && command.contains("--doc")), "{command}");
        }
        assert!(steps(Scope::Full).iter().any(|step| matches!(step.work, Work::ServerTests(_))));
    }

    #[test]
    fn quick_runs_a_short_simulation_and_tidy() {
        let commands: Vec<String> = steps(Scope::Quick).iter().map(|step| step.work.to_string()).collect();
        assert_eq!(commands.len(), 2);
        assert!(commands[0].starts_with("POSTHASTE_SIM_SEEDS=50 cargo test "));
        assert_eq!(commands[1], "cargo xtask tidy");
    }
}
