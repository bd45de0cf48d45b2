//! `cargo xtask test`: everything that must pass before a merge.
//!
//! The order of a run:
//!
//! 1. `tidy` and the checks that take seconds.
//! 2. The build of all test programs, with clippy. At the same time the servers are installed and started.
//! 3. Each test program, as soon as it and the binaries of its package are built, several at a time.
//! 4. The checks that compile, beside the last test programs.
//!
//! A failure does not stop the run. The report at the end names every failure.

mod checks;
mod features;
mod options;
mod output;
mod program;
mod queue;
mod report;
mod runner;
mod targets;

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Instant;

use checks::Check;
pub(crate) use options::Options;
use output::Results;
use program::{Program, build};
use queue::Queue;
use report::Report;
use runner::Runner;

use crate::cargo::has_clippy;
use crate::services::{self, ServersForRun};
use crate::tidy;

/// Returns whether everything passed.
pub(crate) fn run(options: &Options) -> bool {
    let steps = steps(options);
    if !steps.iter().any(|step| options.wants(step)) {
        eprintln!("No step has this in its name. Choose one of:\n  {}", steps.join("\n  "));
        return false;
    }
    let report = Report::default();
    if !options.is_narrow() {
        run_tidy(options, &report);
    }
    run_checks(&wanted(checks::first(), options), &report);
    let checks = wanted(compiled(options), options);
    if wants_build(options) || !checks.is_empty() {
        match services::install_libraries() {
            Ok(()) => run_compiled(options, &checks, &report),
            Err(error) => report.failed(format!("some crates cannot be built.\n{error}")),
        }
    }
    report.finish()
}

fn wants_build(options: &Options) -> bool {
    options.wants("tests") || options.wants("clippy")
}

/// The checks that the options select.
fn wanted(checks: Vec<Check>, options: &Options) -> Vec<Check> {
    let wants = |check: &Check| !options.quick && !options.is_narrow() && options.wants(&check.name);
    checks.into_iter().filter(wants).collect()
}

/// The names that `--step` is compared with.
fn steps(options: &Options) -> Vec<String> {
    let checks = checks::first().into_iter().chain(compiled(options)).map(|check| check.name);
    ["tidy", "clippy", "tests"].into_iter().map(str::to_owned).chain(checks).collect()
}

/// The checks that compile.
fn compiled(options: &Options) -> Vec<Check> {
    [checks::compiled(), features::checks(options)].concat()
}

fn run_compiled(options: &Options, checks: &[Check], report: &Report) {
    let (built, programs) = Queue::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if wants_build(options) {
                run_build(options, report, built);
            }
            run_checks(checks, report);
        });
        if options.wants("tests") {
            run_tests(options, report, &programs);
        }
    });
}

/// Starts the servers and runs the programs. Linux ends the servers with the thread that started them, so this must run
/// on a thread that outlives the tests.
fn run_tests(options: &Options, report: &Report, programs: &Queue) {
    let runner = Runner { jobs: options.jobs(), servers: None, filter: options.filter.clone(), seeds: None };
    if options.quick {
        return Runner { seeds: Some("50"), ..runner }.run(programs, report);
    }
    match ServersForRun::start() {
        Ok(servers) => {
            servers.notes().iter().for_each(|note| report.note(note));
            Runner { servers: Some(servers.variables().to_vec()), ..runner }.run(programs, report);
        }
        Err(error) => report.failed(format!("the tests need real servers.\n{error}")),
    }
}

fn run_build(options: &Options, report: &Report, built: Sender<Program>) {
    let (started, clippy) = (Instant::now(), has_clippy());
    // If the servers failed to start, the queue is gone and the program is dropped.
    let result = build(options, clippy, |program| drop(built.send(program)));
    drop(built);
    report.step("clippy and build of the tests", started.elapsed());
    if !clippy {
        report.skip("clippy: it is not installed here (rustup component add clippy)");
    }
    match result {
        Ok((passed, diagnostics)) => {
            diagnostics.iter().for_each(|diagnostic| println!("{diagnostic}"));
            if !passed {
                report.failed("build of the tests".to_owned());
            } else if !diagnostics.is_empty() {
                report.failed(format!("clippy: {} warnings", diagnostics.len()));
            }
        }
        Err(error) => report.failed(format!("build of the tests: {error}")),
    }
}

fn run_tidy(options: &Options, report: &Report) {
    if options.wants("tidy") && !tidy::run() {
        report.failed("tidy".to_owned());
    }
}

/// Runs the checks one after the other: cargo's lock lets only one of them build at a time.
fn run_checks(checks: &[Check], report: &Report) {
    for check in checks {
        match check.reason_to_skip() {
            Some(reason) => report.skip(reason),
            None => run_check(check, report),
        }
    }
}

fn run_check(check: &Check, report: &Report) {
    let started = Instant::now();
    let (passed, log) = match logged(check) {
        Ok(ended) => ended,
        Err(error) => return report.failed(format!("{}: cannot be run: {error}", check.name)),
    };
    report.step(&check.name, started.elapsed());
    if check.has_tests {
        let output = fs::read(&log).unwrap_or_default();
        report.passed(Results::read(&String::from_utf8_lossy(&output)).passed);
    }
    if !passed {
        report.show(&log);
        report.failed(format!("{}. To run it alone:\n    {}", check.name, check.cargo));
    }
}

/// Runs a check to its end with its output in a file. It has a lower priority than the tests, some of which depend on
/// time.
fn logged(check: &Check) -> io::Result<(bool, PathBuf)> {
    let log = runner::log_file(&format!("{}.log", check.name.replace([' ', ':'], "-")))?;
    let file = File::create(&log)?;
    let status = check.cargo.nice().stdout(file.try_clone()?).stderr(file).status()?;
    Ok((status.success(), log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_of_the_workflows_names_a_step() {
        let mut jobs = 0;
        for file in fs::read_dir(crate::cargo::root().join(".github/workflows")).unwrap() {
            let workflow = fs::read_to_string(file.unwrap().path()).unwrap();
            for step in workflow.lines().filter_map(|line| line.split_once("run: cargo xtask test --step ")) {
                let step = step.1.trim_matches('"');
                let options = Options::parse(&["--step", step]).unwrap();
                assert!(steps(&options).iter().any(|known| options.wants(known)), "{step}");
                jobs += 1;
            }
        }
        assert!(jobs > 5, "{jobs}");
    }

    #[test]
    fn checks_run_only_in_a_full_run_or_as_their_step() {
        let count = |args: &[&str]| wanted(checks::first(), &Options::parse(args).unwrap()).len();
        assert_eq!(count(&[]), checks::first().len());
        assert_eq!((count(&["--step", "format"]), count(&["--step", "tidy"])), (1, 0));
        assert_eq!((count(&["--quick"]), count(&["-p", "posthaste"])), (0, 0));
    }
}
