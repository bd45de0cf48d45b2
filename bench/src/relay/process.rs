//! A relay as a child process, which is killed when its owner is dropped.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::sink::FileSink;
use crate::bench_store::BenchTables;
use posthaste_stores::InvalidStore;
use posthaste_stores::SecretUrl;

/// Pause between two checks whether the process still runs.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct RelayProcess<'a> {
    process: Child,
    sink: &'a FileSink,
}

impl<'a> RelayProcess<'a> {
    /// Starts the process and returns immediately.
    pub(super) fn start<T: BenchTables>(
        tables: &T,
        store: &SecretUrl,
        sink: &'a FileSink,
    ) -> anyhow::Result<Self> {
        let mut command = command(tables, store, sink)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(sink.create_log()?);
        let process = command.spawn().context("the relay cannot be started")?;
        Ok(Self { process, sink })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Runs `work`, but fails as soon as the process ends.
    pub(super) async fn until<T>(&mut self, waited_for: impl Future<Output = T>) -> anyhow::Result<T> {
        tokio::select! {
            done = waited_for => Ok(done),
            error = self.ended() => Err(error),
        }
    }

    async fn ended(&mut self) -> anyhow::Error {
        loop {
            match self.process.try_wait() {
                Ok(None) => tokio::time::sleep(EXIT_CHECK_INTERVAL).await,
                Ok(Some(status)) => return self.reason(&status.to_string()),
                Err(error) => return self.reason(&error.to_string()),
            }
        }
    }

    fn reason(&self, status: &str) -> anyhow::Error {
        anyhow::anyhow!("the relay ended ({status}): {}", self.sink.last_log_line())
    }
}

/// The command line of the relay. The URL of the store may contain a password, so it is passed in the environment:
/// other users can see the arguments of a process.
fn command<T: BenchTables>(tables: &T, store: &SecretUrl, sink: &FileSink) -> anyhow::Result<Command> {
    let Some(outbox_ref) = tables.outbox_ref() else {
        let text = "a relay is a process of its own and cannot see memory: name a database with --store";
        return Err(InvalidStore::new(text).into());
    };
    let mut command = Command::new(std::env::current_exe()?);
    let overrides = std::env::vars_os().map(|(name, _)| name);
    for name in overrides.filter(|name| name.to_string_lossy().starts_with("POSTHASTE")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG").env("POSTHASTE_STORE", store.expose());
    command.args(["relay", "--listen", "127.0.0.1:0", "--table", &outbox_ref.table]);
    command.args(outbox_ref.schema.iter().flat_map(|schema| ["--schema", schema.as_str()]));
    command.arg("--publish").arg(format!("*={}", sink.url()));
    Ok(command)
}

/// Killed without a drain, because its tables are dropped anyway.
impl Drop for RelayProcess<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
