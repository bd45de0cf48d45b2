//! `cargo xtask test`: everything that must pass before a merge.
//!
//! First what takes seconds, then the build of all test programs by clippy, then the programs, several at a time, and
//! beside them what is left for the compiler. Everything runs to its end, and every failure is named at the end.

mod checks;
mod options;
mod output;
mod program;
mod report;
mod runner;

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use checks::Check;
pub(crate) use options::Options;
use output::Results;
use program::{Build, Program};
use report::Report;
use runner::Runner;

use crate::cargo::has_clippy;
use crate::services::{self, ServersForRun};
use crate::tidy;

/// Returns whether everything passed.
pub(crate) fn run(options: &Options) -> bool {
    let report = Report::default();
    if !options.is_narrow() {
        run_tidy(options, &report);
        if !options.quick {
            run_checks(checks::first(), options, &report);
        }
    }
    match options.quick {
        true => run_quick(options, &report),
        false => run_full(options, &report),
    }
    report.finish()
}

/// Tests without servers, with a short simulation.
fn run_quick(options: &Options, report: &Report) {
    if let Err(error) = services::install_libraries() {
        return report.failed(format!("not everything can be built.\n{error}"));
    }
    let runner =
        Runner { jobs: options.jobs(), servers: None, filter: options.filter.clone(), seeds: Some("50") };
    if let Some(programs) = build(options, report) {
        runner.run(&programs, report);
    }
}

fn run_full(options: &Options, report: &Report) {
    let checks = || {
        if !options.is_narrow() {
            run_checks(checks::compiled(), options, report);
        }
    };
    if !options.wants("tests") {
        if options.wants("clippy") {
            build(options, report);
        }
        return checks();
    }
    // Before the build: a machine that cannot have them shall not build for minutes to say so.
    let servers = match ServersForRun::start() {
        Ok(servers) => servers,
        Err(error) => return report.failed(format!("the tests need real servers.\n{error}")),
    };
    servers.notes().iter().for_each(|note| report.note(note));
    let runner = Runner {
        jobs: options.jobs(),
        servers: Some(servers.variables().to_vec()),
        filter: options.filter.clone(),
        seeds: None,
    };
    if let Some(programs) = build(options, report) {
        std::thread::scope(|scope| {
            scope.spawn(checks);
            runner.run(&programs, report);
        });
    }
}

fn build(options: &Options, report: &Report) -> Option<Vec<Program>> {
    let (started, clippy) = (Instant::now(), has_clippy());
    let Build { programs, diagnostics } = Build::run(options, clippy);
    report.step("clippy and build of the tests", started.elapsed());
    diagnostics.iter().for_each(|diagnostic| println!("{diagnostic}"));
    if !clippy {
        report.skip("clippy");
    }
    match &programs {
        None => report.failed("build of the tests".to_owned()),
        Some(_) if !diagnostics.is_empty() => {
            report.failed(format!("clippy: {} warnings", diagnostics.len()));
        }
        Some(_) => {}
    }
    programs
}

fn run_tidy(options: &Options, report: &Report) {
    if options.wants("tidy") && !tidy::run() {
        report.failed("tidy".to_owned());
    }
}

/// One after the other: cargo lets only one of them build at a time.
fn run_checks(checks: Vec<Check>, options: &Options, report: &Report) {
    for check in checks.iter().filter(|check| options.wants(&check.name)) {
        match check.component.filter(|_| !check.is_installed()) {
            Some(component) => report.skip(component),
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

/// Runs it to its end, with its output in a file. It yields to the tests, some of which have to be in time.
fn logged(check: &Check) -> io::Result<(bool, PathBuf)> {
    let log = runner::log_file(&format!("{}.log", check.name.replace(' ', "-")))?;
    let file = File::create(&log)?;
    let status = check.cargo.nice().stdout(file.try_clone()?).stderr(file).status()?;
    Ok((status.success(), log))
}
