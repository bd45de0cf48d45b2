//! A set of servers: started together, written down, ended together.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::saved_state::{DIRECTORY_PREFIX, SavedState, Server};
use super::{Service, process};

/// How long the servers shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// Until somebody says `services down`.
    UntilDown,
    /// As long as this process.
    ThisProcess,
}

/// Servers, and the file in which they are written down.
#[derive(Debug)]
pub(super) struct ServerSet {
    file: PathBuf,
    state: SavedState,
    lifetime: Lifetime,
    /// Those that start slowly, while the others start.
    starting: Vec<StartingServer>,
}

/// A server of which nobody knows yet whether it will be ready.
#[derive(Debug)]
struct StartingServer {
    server: Server,
    child: Child,
    is_ready: fn(u16) -> bool,
}

impl ServerSet {
    /// Starts the services in their order. What was started is stopped if one of them fails.
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

    /// The set that is written down there; none if there is no such file or nobody wrote it.
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

    /// Stops the servers, the last one first, and forgets them.
    pub(super) fn stop(&self) -> Result<(), String> {
        for server in self.state.servers.iter().rev() {
            process::stop(server, self.directory())?;
        }
        // Children of a killed server may still be writing for a moment.
        let mut removed = Ok(());
        process::wait_until(|| {
            removed = remove_directory(self.directory());
            removed.is_ok()
        });
        removed.map_err(|error| format!("{} cannot be removed: {error}", self.directory().display()))?;
        fs::remove_file(&self.file)
            .map_err(|error| format!("{} cannot be removed: {error}", self.file.display()))
    }

    /// Runs a program that ends by itself, such as one that prepares the data, as the servers run.
    /// It reads `input`.
    pub(super) fn run(&self, program: &Path, args: &[&str], input: &str) -> Result<(), String> {
        let mut command = process::unprivileged(program, None);
        let said = process::run_with_input(self.in_directory(&mut command).args(args), input);
        said.map(|_| ()).map_err(|error| format!("{error} ({})", program.display()))
    }

    /// Writes a file of settings into the directory.
    pub(super) fn create_file(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.directory().join(name);
        fs::write(&path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        Ok(path)
    }

    /// Starts a server, which names the set's directory in its arguments, and waits until it is ready.
    pub(super) fn serve(
        &mut self,
        start: &ServerStart<'_>,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), String> {
        let (server, child) = self.launch(start)?;
        self.await_ready(&server, child, is_ready)
    }

    /// The same without waiting now: the other servers start meanwhile.
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
        // Not by its command line, which a process that was just started may not have yet.
        let mut is_alive = || matches!(child.try_wait(), Ok(None));
        process::wait_until(|| is_ready() || !is_alive());
        // Alive as well: on its port somebody else may answer.
        if is_ready() && is_alive() {
            return Ok(());
        }
        let said = fs::read_to_string(self.log(&server.name)).unwrap_or_default();
        Err(format!("{}\n{} did not start. Above is what it said.", said.trim_end(), server.name))
    }

    /// Where the server of this name says what it does.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.directory().join(format!("{name}.log"))
    }

    fn in_directory<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // The caller's own folder may be closed to them, and their messages shall be in one language.
        command.current_dir(self.directory()).env("LC_ALL", "C")
    }

    /// Writes down where the last server listens, if it chose that itself.
    pub(super) fn correct_port(&mut self, port: u16) {
        if let Some(server) = self.state.servers.last_mut() {
            server.port = port;
        }
    }

    pub(super) fn export(&mut self, name: &str, value: impl Into<String>) {
        self.state.variables.push((name.to_owned(), value.into()));
    }

    /// Adds a line to the report of the tests that use the servers.
    pub(super) fn note(&mut self, line: &str) {
        self.state.notes.push(line.to_owned());
    }

    /// Takes what the user named in the environment, if somebody listens at each of its addresses.
    pub(super) fn export_from_env<'a>(
        &mut self,
        name: &str,
        url: &str,
        addresses: impl IntoIterator<Item = (&'a str, u16)>,
    ) -> Result<(), String> {
        if !addresses.into_iter().all(is_listening) {
            return Err(format!(
                "{name} is set, and nobody listens there: start that server, or `unset {name}` to get a private one."
            ));
        }
        self.export(name, url);
        Ok(())
    }

    /// Only the caller may read it: a URL that was given may contain a password.
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

/// How a server is started.
#[derive(Debug)]
pub(super) struct ServerStart<'a> {
    pub(super) name: &'a str,
    pub(super) program: &'a Path,
    pub(super) args: &'a [&'a str],
    /// Name and value of what it shall find in its environment.
    pub(super) env: &'a [(&'a str, String)],
    pub(super) port: u16,
    pub(super) stop_signal: &'a str,
}

impl<'a> ServerStart<'a> {
    /// With nothing in its environment, and ended by TERM.
    pub(super) fn new(name: &'a str, program: &'a Path, args: &'a [&'a str], port: u16) -> Self {
        Self { name, program, args, env: &[], port, stop_signal: "TERM" }
    }
}

/// Whether somebody listens there.
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
