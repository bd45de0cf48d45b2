//! The runner of test programs: several at a time, each failed test once more alone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::output::Results;
use super::program::Program;
use super::queue::Queue;
use super::report::Report;

/// A program that prints nothing for this long is killed, because one of its tests hangs. Each test prints a line when
/// it ends, and the slowest takes a third of this time on two busy cores.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(8 * 60);

/// If more tests fail, none is run a second time: something is broken, and the repetition would take long.
const MAX_RETRIES: usize = 20;

/// How the test programs run.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    /// How many programs run at a time.
    pub(super) jobs: usize,
    /// The environment variables that name the servers. `None`: tests that need a server do not run.
    pub(super) servers: Option<Vec<(String, String)>>,
    pub(super) filter: Option<String>,
    /// The number of simulation seeds. `None`: the default of the simulation.
    pub(super) seeds: Option<&'static str>,
}

/// The outcome of one program.
#[derive(Debug)]
struct Run {
    results: Results,
    /// Why it ended without a result.
    crashed: Option<String>,
    /// Whether it was killed because it printed nothing more.
    is_hung: bool,
    log: PathBuf,
}

impl Runner {
    /// Runs all programs in the order of the queue, then each failed test once more, alone.
    pub(super) fn run(&self, programs: &Queue, report: &Report) {
        let failed = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    while let Some(program) = programs.next() {
                        let tests = self.run_program(&program, report);
                        locked(&failed).extend(tests.into_iter().map(|test| (program.clone(), test)));
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_retried = failed.len() <= MAX_RETRIES;
        for (program, test) in failed {
            let name = format!("{program} {test}");
            match is_retried && self.passes_alone(&program, &test) {
                true => report.flaky(name),
                false => report.failed(name),
            }
        }
    }

    /// Returns the tests that failed.
    fn run_program(&self, program: &Program, report: &Report) -> Vec<String> {
        let started = Instant::now();
        let mut command = self.command(program);
        command.args(&self.filter);
        let run = run(command, &program.log_name(), SILENCE_TIMEOUT);
        let run = match run.and_then(|run| self.name_hung_tests(program, run)) {
            Ok(run) => run,
            Err(error) => {
                report.failed(format!("{program}: cannot be run: {error}"));
                return Vec::new();
            }
        };
        let Run { results, crashed, is_hung, log } = run;
        report.passed(results.passed);
        if results.passed > 0 || !results.failed.is_empty() || crashed.is_some() {
            let counts = format!("{} passed, {} failed", results.passed, results.failed.len());
            report.step(&format!("{program}: {counts}"), started.elapsed());
        }
        if is_hung {
            println!(
                "{program} printed nothing for {} minutes and was killed.",
                SILENCE_TIMEOUT.as_secs() / 60
            );
        }
        if crashed.is_some() || !results.failed.is_empty() {
            report.show(&log);
        }
        if let Some(crashed) = crashed {
            report.failed(format!("{program}: {crashed}"));
        }
        results.failed
    }

    /// If a program was killed, the tests that had not ended have failed. If there are many of them, the program itself
    /// has failed: most of them had probably not started.
    fn name_hung_tests(&self, program: &Program, mut run: Run) -> io::Result<Run> {
        if !run.is_hung {
            return Ok(run);
        }
        let mut list = self.command(program);
        let names = list.arg("--list").args(&self.filter).output()?.stdout;
        let log = read(&run.log)?;
        let (passed, unended) = ended_tests(&String::from_utf8_lossy(&names), &log);
        run.results.passed = passed;
        match unended.len() {
            1..=MAX_RETRIES => run.results.failed = unended,
            count => run.crashed = Some(format!("hangs, and {count} of its tests have not ended")),
        }
        Ok(run)
    }

    fn passes_alone(&self, program: &Program, test: &str) -> bool {
        let mut command = self.command(program);
        command.args(["--exact", test]);
        let again = run(command, &format!("again-{}", program.log_name()), SILENCE_TIMEOUT);
        again.is_ok_and(|run| {
            run.crashed.is_none() && run.results.failed.is_empty() && run.results.passed == 1
        })
    }

    fn command(&self, program: &Program) -> Command {
        let mut command = program.command();
        command.envs(self.seeds.map(|seeds| ("POSTHASTE_SIM_SEEDS", seeds)));
        // For trybuild: it compiles all dependencies again in a workspace of its own, without our profiles.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        if let Some(servers) = &self.servers {
            // The ignored tests are those that need a server.
            command.arg("--include-ignored").envs(servers.iter().cloned());
        }
        command
    }
}

/// Runs a program with its output in a file, and kills it once it has printed nothing for the time `silence`.
fn run(mut command: Command, log_name: &str, silence: Duration) -> io::Result<Run> {
    let log = log_file(log_name)?;
    let file = File::create(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
    let status = wait(command, &file, silence)?;
    let results = Results::read(&read(&log)?);
    let crashed = match status {
        None => None,
        Some(status) if results.summaries == 0 => Some(format!("ended without a result: {status}")),
        Some(status) if !status.success() && results.failed.is_empty() => Some(status.to_string()),
        Some(_) => None,
    };
    Ok(Run { results, crashed, is_hung: status.is_none(), log })
}

/// Returns `None` if the program was killed.
fn wait(mut command: Command, log: &File, silence: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let (mut printed, mut since) = (0, Instant::now());
    while since.elapsed() < silence {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let bytes = log.metadata()?.len();
        if bytes > printed {
            (printed, since) = (bytes, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// The number of passed tests of a list, and the names of the others.
fn ended_tests(list: &str, log: &str) -> (u64, Vec<String>) {
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let has = |end: &str| log.lines().any(|line| line.ends_with(end));
    let (passed, others): (Vec<_>, Vec<_>) = names.partition(|name| has(&format!("test {name} ... ok")));
    (passed.len() as u64, others.into_iter().map(str::to_owned).collect())
}

/// Reads bytes, because a test may print invalid UTF-8.
fn read(log: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(log)?).into_owned())
}

pub(super) fn log_file(name: &str) -> io::Result<PathBuf> {
    let folder = crate::cargo::root().join("target/test-logs");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(name))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn shell(script: &str, log: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, log, Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn program_that_ends_without_a_result_has_crashed() {
        let run = shell("echo 'test a ... ok'; kill -ABRT $$", "crashes.log");
        assert!(run.crashed.unwrap().starts_with("ended without a result: signal: 6"));
    }

    #[test]
    fn program_with_failed_tests_has_not_crashed() {
        let script = "printf 'failures:\\n    a\\n\\ntest result: FAILED. 2 passed; 1 failed;\\n'; exit 101";
        let run = shell(script, "fails.log");
        assert_eq!((run.crashed, run.results.passed, run.results.failed), (None, 2, vec!["a".to_owned()]));
    }

    #[test]
    fn exit_status_counts_if_no_test_failed() {
        let run = shell("echo 'test result: ok. 2 passed; 0 failed;'; exit 3", "exits.log");
        assert!(run.crashed.unwrap().contains('3'));
    }

    #[test]
    fn program_that_prints_nothing_more_is_killed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test a ... ok'; exec sleep 600"]);
        let run = run(command, "hangs.log", Duration::from_millis(300)).unwrap();
        assert!(run.is_hung && run.crashed.is_none());
        assert_eq!(read(&run.log).unwrap(), "test a ... ok\n");
    }

    #[test]
    fn tests_that_have_not_ended_are_named() {
        let list = "a::one: test\ntwo: test\nthree: test\nfour: benchmark\n\n3 tests, 1 benchmark\n";
        let log =
            "running 3 tests\nnoise test a::one ... ok\ntest two has been running for over 60 seconds\n";
        assert_eq!(ended_tests(list, log), (1, vec!["two".to_owned(), "three".to_owned()]));
    }

    /// Each of two programs waits for the other.
    #[test]
    fn programs_run_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let program = |mine: &str, other: &str| {
            let file = folder.path().join(format!("{mine}.sh"));
            let script = format!(
                "#!/bin/sh\ntouch {mine}\nfor _ in $(seq 600); do\n[ -e {other} ] && break\nsleep 0.1\ndone\n\
                 [ -e {other} ] && echo 'test result: ok. 1 passed; 0 failed;'\n"
            );
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            Program::of(file, folder.path().to_owned())
        };
        let runner = Runner { jobs: 2, servers: None, filter: None, seeds: None };
        let report = Report::default();
        let (built, queue) = Queue::new();
        built.send(program("one", "two")).unwrap();
        built.send(program("two", "one")).unwrap();
        drop(built);
        runner.run(&queue, &report);
        assert!(report.finish());
    }
}
