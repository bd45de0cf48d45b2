//! A set of servers that are started and stopped together, and the file that describes them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::saved_state::{DIRECTORY_PREFIX, SavedState, Server};
use super::{Service, process};

/// How long the servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// Until `services down`.
    UntilDown,
    /// Until this process ends.
    ThisProcess,
}

/// Servers, and the file with their saved state.
#[derive(Debug)]
pub(super) struct ServerSet {
    file: PathBuf,
    state: SavedState,
    lifetime: Lifetime,
    /// Slow servers, which become ready while the others start.
    starting: Vec<StartingServer>,
}

/// A server that was started and is not ready yet.
#[derive(Debug)]
struct StartingServer {
    server: Server,
    child: Child,
    is_ready: fn(u16) -> bool,
}

impl ServerSet {
    /// Starts the services in their order. If one fails, those that run are stopped.
    pub(super) fn start(file: PathBuf, services: &[Service], lifetime: Lifetime) -> Result<Self, String> {
        let directory = process::create_directory(DIRECTORY_PREFIX)?;
        let mut set = Self { file, state: SavedState::new(directory), lifetime, starting: Vec::new() };
        match set.start_all(services) {
            Ok(()) => Ok(set),
            Err(error) => {
                let stopped = set.stop();
                Err([Some(error), stopped.err()].into_iter().flatten().collect::<Vec<_>>().join("\n"))
            }
        }
    }

    fn start_all(&mut self, services: &[Service]) -> Result<(), String> {
        self.save()?;
        services.iter().try_for_each(|service| (service.start)(self))?;
        for StartingServer { server, child, is_ready } in std::mem::take(&mut self.starting) {
            self.await_ready(&server, child, || is_ready(server.port))?;
        }
        self.save()
    }

    /// Reads the set in a file. `None` if the file is missing or damaged.
    pub(super) fn load(file: PathBuf) -> Option<Self> {
        let state = SavedState::from_text(&fs::read_to_string(&file).ok()?)?;
        Some(Self { file, state, lifetime: Lifetime::UntilDown, starting: Vec::new() })
    }

    pub(super) fn state(&self) -> &SavedState {
        &self.state
    }

    pub(super) fn directory(&self) -> &Path {
        &self.state.directory
    }

    pub(super) fn is_alive(&self) -> bool {
        self.state.servers.iter().all(|server| process::is_alive(server, self.directory()))
    }

    /// Stops the servers, the last one first, and removes their directory and the file.
    pub(super) fn stop(&self) -> Result<(), String> {
        for server in self.state.servers.iter().rev() {
            process::stop(server, self.directory())?;
        }
        // Child processes of a killed server may write for a moment longer.
        let mut removed = Ok(());
        process::wait_until(|| {
            removed = remove_directory(self.directory());
            removed.is_ok()
        });
        removed.map_err(|error| format!("{} cannot be removed: {error}", self.directory().display()))?;
        fs::remove_file(&self.file)
            .map_err(|error| format!("{} cannot be removed: {error}", self.file.display()))
    }

    /// Runs a program to its end as the user of the servers, with `input` as standard input. Such a program creates the
    /// data of a server.
    pub(super) fn run(&self, program: &Path, args: &[&str], input: &str) -> Result<(), String> {
        let mut command = process::unprivileged(program, None);
        let output = process::run_with_input(self.in_directory(&mut command).args(args), input);
        output.map(|_| ()).map_err(|error| format!("{error} ({})", program.display()))
    }

    /// Writes a configuration file into the directory.
    pub(super) fn create_file(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.directory().join(name);
        fs::write(&path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        Ok(path)
    }

    /// Starts a server and waits until it is ready. Its arguments must contain the directory, for `process::is_alive`.
    pub(super) fn serve(
        &mut self,
        start: &ServerStart<'_>,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), String> {
        let (server, child) = self.launch(start)?;
        self.await_ready(&server, child, is_ready)
    }

    /// Starts a server. [`ServerSet::start`] waits for it after all others have started.
    pub(super) fn serve_slowly(
        &mut self,
        start: &ServerStart<'_>,
        is_ready: fn(u16) -> bool,
    ) -> Result<(), String> {
        let (server, child) = self.launch(start)?;
        self.starting.push(StartingServer { server, child, is_ready });
        Ok(())
    }

    fn launch(&mut self, start: &ServerStart<'_>) -> Result<(Server, Child), String> {
        let at_our_death = (self.lifetime == Lifetime::ThisProcess).then_some(start.stop_signal);
        let mut command = process::unprivileged(start.program, at_our_death);
        self.in_directory(&mut command)
            .args(start.args)
            .envs(start.env.iter().map(|(name, value)| (name, value)));
        let child = process::start(&mut command, &self.log(start.name))?;
        let server = Server {
            name: start.name.to_owned(),
            pid: child.id(),
            port: start.port,
            stop_signal: start.stop_signal.to_owned(),
        };
        self.state.servers.push(server.clone());
        self.save()?;
        Ok((server, child))
    }

    fn await_ready(
        &self,
        server: &Server,
        mut child: Child,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), String> {
        // Not `process::is_alive`: a new process may not have its command line yet.
        let mut is_alive = || matches!(child.try_wait(), Ok(None));
        process::wait_until(|| is_ready() || !is_alive());
        // It must be alive too: the reply may come from another program on its port.
        if is_ready() && is_alive() {
            return Ok(());
        }
        let output = fs::read_to_string(self.log(&server.name)).unwrap_or_default();
        Err(format!("{}\n{} did not start. Its output is above.", output.trim_end(), server.name))
    }

    /// The log file of a server.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.directory().join(format!("{name}.log"))
    }

    fn in_directory<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // The user of the servers may have no access to the current folder. Messages are in English.
        command.current_dir(self.directory()).env("LC_ALL", "C")
    }

    /// Records the port of the last server, which chose it itself.
    pub(super) fn correct_port(&mut self, port: u16) {
        if let Some(server) = self.state.servers.last_mut() {
            server.port = port;
        }
    }

    pub(super) fn export(&mut self, name: &str, value: impl Into<String>) {
        self.state.variables.push((name.to_owned(), value.into()));
    }

    /// Adds a line to the report of a test run.
    pub(super) fn note(&mut self, line: &str) {
        self.state.notes.push(line.to_owned());
    }

    /// Exports a variable that the user has set, after a check that a server listens at each of its addresses.
    pub(super) fn export_from_env<'a>(
        &mut self,
        name: &str,
        url: &str,
        addresses: impl IntoIterator<Item = (&'a str, u16)>,
    ) -> Result<(), String> {
        if !addresses.into_iter().all(is_listening) {
            return Err(format!(
                "{name} is set, but no server listens there: start it, or `unset {name}` to get a private one."
            ));
        }
        self.export(name, url);
        Ok(())
    }

    /// Writes the saved state. Only the user can read the file: a URL in it may contain a password.
    fn save(&self) -> Result<(), String> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written =
            options.open(&self.file).and_then(|mut file| file.write_all(self.state.to_text().as_bytes()));
        written.map_err(|error| format!("{} cannot be written: {error}", self.file.display()))
    }
}

/// The start command of a server.
#[derive(Debug)]
pub(super) struct ServerStart<'a> {
    pub(super) name: &'a str,
    pub(super) program: &'a Path,
    pub(super) args: &'a [&'a str],
    /// Environment variables of the server.
    pub(super) env: &'a [(&'a str, String)],
    pub(super) port: u16,
    pub(super) stop_signal: &'a str,
}

impl<'a> ServerStart<'a> {
    /// A server without environment variables of its own, which is stopped with TERM.
    pub(super) fn new(name: &'a str, program: &'a Path, args: &'a [&'a str], port: u16) -> Self {
        Self { name, program, args, env: &[], port, stop_signal: "TERM" }
    }
}

/// Whether a server listens at an address.
pub(super) fn is_listening(address: (&str, u16)) -> bool {
    let addresses = address.to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, process::SERVER_TIMEOUT).is_ok())
}

fn remove_directory(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
