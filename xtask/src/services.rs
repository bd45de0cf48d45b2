//! `cargo xtask services`: real servers for tests, private to this checkout.
//!
//! They listen on free ports of 127.0.0.1 only, write into a temporary directory and run without privileges. A server
//! that an environment variable names is used instead of a new one. Servers of the system are never touched.

mod build_libraries;
mod cache;
mod install;
mod kafka;
mod mariadb;
mod nats;
mod pgbouncer;
mod port;
mod postgres;
mod probe;
mod process;
mod producers;
mod programs;
mod python;
mod rabbitmq;
mod redis;
mod redis_cluster;
mod requirement;
mod saved_state;
mod server_set;
mod server_url;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use server_set::{Lifetime, ServerSet};

/// One kind of server, or another program that tests need. Each is a file of its own.
struct Service {
    /// The Debian packages that must be installed before it can start.
    missing_packages: fn() -> Vec<&'static str>,
    /// Starts it, or uses the one that the environment names, and exports its variables.
    start: fn(&mut ServerSet) -> Result<(), String>,
}

/// All services in their start order: the slow ones first, and PgBouncer after PostgreSQL, which it needs.
const SERVICES: &[Service] = &[
    rabbitmq::SERVICE,
    kafka::SERVICE,
    postgres::SERVICE,
    pgbouncer::SERVICE,
    mariadb::SERVICE,
    redis::SERVICE,
    redis_cluster::SERVICE,
    nats::SERVICE,
    programs::SERVICE,
    python::SERVICE,
    producers::SERVICE,
    build_libraries::SERVICE,
];

/// Starts the servers and leaves them running.
pub(crate) fn up() -> Result<(), String> {
    let _lock = lock()?;
    stop_abandoned_runs()?;
    if let Some(set) = running()? {
        println!("The servers run already.\n");
        describe(&set);
        return Ok(());
    }
    let set = start(&up_file(), Lifetime::UntilDown)?;
    describe(&set);
    Ok(())
}

/// Stops the servers, also if some of them have died.
pub(crate) fn down() -> Result<(), String> {
    let _lock = lock()?;
    stop_abandoned_runs()?;
    match load(&up_file())? {
        Some(set) => set.stop().map(|()| println!("The servers are stopped and their data is removed.")),
        None => {
            println!("No servers are running.");
            Ok(())
        }
    }
}

/// Prints the variables for a shell's `eval`.
pub(crate) fn env() -> Result<(), String> {
    let set = load(&up_file())?.filter(ServerSet::is_alive);
    let set =
        set.ok_or("No servers are running, or one of them died: run `cargo xtask services up` first.")?;
    print!("{}", set.state().exports());
    Ok(())
}

/// The servers of a test run: those of `services up`, or private ones that end with the run.
#[derive(Debug)]
pub(crate) struct ServersForRun {
    set: ServerSet,
    is_private: bool,
}

impl ServersForRun {
    pub(crate) fn start() -> Result<Self, String> {
        let _lock = lock()?;
        stop_abandoned_runs()?;
        if let Some(set) = running()? {
            return Ok(Self { set, is_private: false });
        }
        let set = start(&run_file(std::process::id()), Lifetime::ThisProcess)?;
        Ok(Self { set, is_private: true })
    }

    /// The environment variables for the tests, with their values.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.set.state().variables
    }

    /// Lines about the servers for the report of the run.
    pub(crate) fn notes(&self) -> &[String] {
        &self.set.state().notes
    }
}

impl Drop for ServersForRun {
    fn drop(&mut self) {
        if self.is_private
            && let Err(error) = self.set.stop()
        {
            eprintln!("{error}");
        }
    }
}

/// The value of an environment variable. An empty one counts as not set.
fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Installs the libraries for a build with all features. The error names what the user has to install.
pub(crate) fn install_libraries() -> Result<(), String> {
    install::install(&build_libraries::missing_packages())
}

fn start(file: &Path, lifetime: Lifetime) -> Result<ServerSet, String> {
    // Two services may need the same package.
    let missing: BTreeSet<&str> = SERVICES.iter().flat_map(|service| (service.missing_packages)()).collect();
    install::install(&Vec::from_iter(missing))?;
    ServerSet::start(file.to_owned(), SERVICES, lifetime)
}

fn describe(set: &ServerSet) {
    let state = set.state();
    for server in &state.servers {
        println!("{} on 127.0.0.1:{}, process {}", server.name, server.port, server.pid);
    }
    println!("Logs and data: {}\n", state.directory.display());
    state.notes.iter().for_each(|note| println!("{note}\n"));
    print!("{}", state.exports());
    println!("\nTo set these variables:  eval \"$(cargo xtask services env)\"");
    println!("To stop the servers:     cargo xtask services down");
}

/// The set that `services up` started, if all of its servers still run. Otherwise the rest of it is stopped.
fn running() -> Result<Option<ServerSet>, String> {
    let Some(set) = load(&up_file())? else { return Ok(None) };
    if !set.is_alive() {
        eprintln!("Some servers of the last `cargo xtask services up` have died: the others are stopped.");
        set.stop()?;
        return Ok(None);
    }
    // Two servers for one variable: only the user knows which one the tests should use.
    let other =
        set.state().variables.iter().find(|(name, value)| env_var(name).is_some_and(|given| given != *value));
    match other {
        Some((name, _)) => Err(format!(
            "{name} is set, but not to the server that is running: `unset {name}`, or run \
             `cargo xtask services down` first."
        )),
        None => Ok(Some(set)),
    }
}

/// Stops the servers of test runs that were killed before they could do so.
fn stop_abandoned_runs() -> Result<(), String> {
    let Ok(files) = fs::read_dir(folder()) else { return Ok(()) };
    for file in files.flatten() {
        let name = file.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(RUN_FILE_PREFIX))
            .and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| !process::command_line(pid).contains("xtask")) {
            load(&file.path())?.map_or(Ok(()), |set| set.stop())?;
        }
    }
    Ok(())
}

/// Reads the set in a file. A damaged file is an error, because its servers may still run.
fn load(file: &Path) -> Result<Option<ServerSet>, String> {
    if !file.exists() {
        return Ok(None);
    }
    let set = ServerSet::load(file.to_owned()).ok_or_else(|| {
        format!("{} is damaged: end the servers that it names, then remove the file.", file.display())
    })?;
    Ok(Some(set))
}

const RUN_FILE_PREFIX: &str = "run-";

/// The folder of the files about running servers. It does not depend on `CARGO_TARGET_DIR`, so that every command
/// finds it.
fn folder() -> PathBuf {
    crate::cargo::root().join("target/services")
}

fn up_file() -> PathBuf {
    folder().join("up")
}

fn run_file(pid: u32) -> PathBuf {
    folder().join(format!("{RUN_FILE_PREFIX}{pid}"))
}

/// Takes the lock that keeps two commands from starting and stopping servers at the same time. It is held until the
/// file is dropped.
fn lock() -> Result<File, String> {
    let path = folder().join("lock");
    let locked = fs::create_dir_all(folder()).and_then(|()| File::create(&path)).and_then(|file| {
        file.lock()?;
        Ok(file)
    });
    locked.map_err(|error| format!("{} cannot be locked: {error}", path.display()))
}
