//! The relay: starts outboxes and the admin listener, executes commands, stops everything.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use posthaste_admin::{AdminApi, error_chain, terminal_escape};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::RelayError;
use crate::config::{AdminConfig, LogConfig, Problem, Problems, RelayConfig, Source};
use crate::relay_outbox::RelayOutbox;
use crate::reload_plan;

/// A command to a running relay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RelayCommand {
    /// Reads this configuration again and applies all of it. If any part is invalid or needs a restart, the
    /// configuration is refused as a whole and nothing changes.
    Reload(Source),
    /// Finishes what is under way and ends. A second `Stop` ends the relay immediately.
    Stop,
}

/// The way in which a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayExit {
    /// What was under way is finished, and all other events were released to their stores.
    Gracefully,
    /// A second [`RelayCommand::Stop`] ended it. What was under way is delivered again when its leases lapse.
    Forced,
}

/// A relay that is not running yet.
pub struct Relay {
    config: RelayConfig,
    fail_fast: bool,
    metrics: Option<Box<dyn Fn() -> String + Send + Sync>>,
}

impl Relay {
    /// Runs a relay until `shutdown` completes, then finishes what is under way.
    ///
    /// # Errors
    ///
    /// A destination or a setting is invalid, or the admin listener cannot listen. A store or a broker that cannot be
    /// reached is not an error: the relay tries again.
    pub async fn run(config: RelayConfig, shutdown: impl Future<Output = ()>) -> Result<(), RelayError> {
        let (sender, commands) = mpsc::channel(1);
        let mut running = pin!(Self::new(config).run_with(commands));
        tokio::select! {
            ended = &mut running => return ended.map(drop),
            () = shutdown => {}
        }
        // This cannot fail: the channel has room for one command, and this is the first.
        let _ = sender.try_send(RelayCommand::Stop);
        running.await.map(drop)
    }

    /// A relay with this configuration.
    pub fn new(config: RelayConfig) -> Self {
        Self { config, fail_fast: false, metrics: None }
    }

    /// Whether the relay ends with an error if a store or a broker cannot be reached at the start. Default: no, it
    /// tries again.
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// Sets the function that renders `/metrics` of the admin listener, such as
    /// [`Recorder::render`](crate::metrics::Recorder::render). Default: there is no `/metrics`.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Box::new(render));
        self
    }

    /// Runs until a command stops it, or until the channel closes.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); with `fail_fast` also if a store or a broker cannot be reached.
    pub async fn run_with(self, mut commands: mpsc::Receiver<RelayCommand>) -> Result<RelayExit, RelayError> {
        let Self { config, fail_fast, metrics } = self;
        let outboxes = config.outboxes.into_iter().map(RelayOutbox::new).collect::<Result<Vec<_>, _>>()?;
        let stopping = CancellationToken::new();
        let api = api(&config.admin, &outboxes, &stopping, metrics);
        let listener = AdminListener::start(&config.admin, api).await?;

        let mut running = RunningRelay {
            admin: config.admin,
            log: config.log,
            outboxes,
            starting: JoinSet::new(),
            stopping,
        };
        running.start(fail_fast);
        let ended = running.serve(&mut commands).await;
        // A forced end does not wait for requests under way.
        if !matches!(ended, Ok(RelayExit::Forced)) {
            tokio::select! {
                () = listener.stop() => {}
                () = stop_command(&mut commands) => {}
            }
        }
        ended
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("config", &self.config).finish_non_exhaustive()
    }
}

fn api(
    admin: &AdminConfig,
    outboxes: &[Arc<RelayOutbox>],
    stopping: &CancellationToken,
    metrics: Option<Box<dyn Fn() -> String + Send + Sync>>,
) -> AdminApi {
    let stopping = stopping.clone();
    let api = AdminApi::new().ready_lag(admin.ready_lag).stopping_when(move || stopping.is_cancelled());
    let api = outboxes.iter().fold(api, |api, outbox| api.outbox(outbox.admin()));
    let api = admin.tokens.iter().cloned().fold(api, AdminApi::token);
    match metrics {
        Some(render) => api.metrics(render),
        None => api,
    }
}

/// Waits for the next `Stop` and drops other commands. Never returns if the channel is closed.
async fn stop_command(commands: &mut mpsc::Receiver<RelayCommand>) {
    loop {
        match commands.recv().await {
            Some(RelayCommand::Stop) => return,
            Some(RelayCommand::Reload(_)) => {}
            None => return std::future::pending().await,
        }
    }
}

/// The outboxes of a running relay.
struct RunningRelay {
    /// As at the start: a reload that changes `[admin]` or `[log]` is refused.
    admin: AdminConfig,
    log: LogConfig,
    outboxes: Vec<Arc<RelayOutbox>>,
    /// One task for each outbox that is being started or replaced. A task ends when the engine runs; its error ends the
    /// relay.
    starting: JoinSet<Result<(), RelayError>>,
    /// Cancelled when the relay begins to stop: from then on `/health/ready` fails.
    stopping: CancellationToken,
}

impl RunningRelay {
    fn start(&mut self, fail_fast: bool) {
        for outbox in &self.outboxes {
            let outbox = Arc::clone(outbox);
            self.starting.spawn(async move { outbox.start(fail_fast).await });
        }
    }

    async fn serve(&mut self, commands: &mut mpsc::Receiver<RelayCommand>) -> Result<RelayExit, RelayError> {
        loop {
            tokio::select! {
                Some(started) = self.starting.join_next() => {
                    if let Err(error) = started.map_err(RelayError::Panicked).flatten() {
                        self.stop_unless_forced(commands).await;
                        return Err(error);
                    }
                }
                command = commands.recv() => match command {
                    // Reading may block for ever, for example on a pipe without a writer, so a stop interrupts it.
                    Some(RelayCommand::Reload(source)) => tokio::select! {
                        () = self.reload(source) => {}
                        () = stop_command(commands) => return Ok(self.stop_unless_forced(commands).await),
                    },
                    Some(RelayCommand::Stop) | None => return Ok(self.stop_unless_forced(commands).await),
                },
            }
        }
    }

    /// Applies the configuration as it is now: all of it, or nothing. Engines are replaced in tasks of `starting`, so
    /// that the relay accepts commands meanwhile.
    async fn reload(&mut self, source: Source) {
        tracing::info!("reading the configuration again");
        // On a blocking thread, because reading may block, for example on a pipe without a writer.
        let loaded = tokio::task::spawn_blocking(move || source.load()).await;
        let changes = match loaded.map_err(RelayError::NotRead) {
            Ok(Ok(config)) => reload_plan::compare(&self.log, &self.admin, &self.outboxes, config),
            Ok(Err(problems)) => return refuse(&in_one_line(&problems)),
            Err(error) => Err(error),
        };
        match changes {
            Ok(changes) if changes.is_empty() => tracing::info!("the configuration is the same as before"),
            Ok(changes) => {
                for (outbox, plan) in changes {
                    outbox.adopt(plan);
                    self.starting.spawn(async move { outbox.replace().await });
                }
            }
            Err(error) => refuse(&error_chain(&error)),
        }
    }

    async fn stop_unless_forced(&self, commands: &mut mpsc::Receiver<RelayCommand>) -> RelayExit {
        tracing::info!("stopping; a second signal ends the relay immediately");
        tokio::select! {
            () = self.stop() => RelayExit::Gracefully,
            () = stop_command(commands) => {
                tracing::warn!("ended immediately; what was under way is delivered again when its leases lapse");
                RelayExit::Forced
            }
        }
    }

    async fn stop(&self) {
        self.stopping.cancel();
        let stopping: JoinSet<()> =
            self.outboxes.iter().cloned().map(|outbox| async move { outbox.stop().await }).collect();
        stopping.join_all().await;
    }
}

/// Logs why a configuration is refused: all problems in one line, so that none is suppressed as a repeat.
fn refuse(why: &str) {
    tracing::error!(error = %why, "the configuration is refused; nothing changed");
}

fn in_one_line(problems: &Problems) -> String {
    terminal_escape::one_line(&problems.iter().map(Problem::in_one_line).collect::<Vec<_>>().join("; "))
}

/// The admin listener. Without an address in the configuration there is none, and `task` is `None`.
struct AdminListener {
    stop: CancellationToken,
    task: Option<AbortOnDropHandle<()>>,
}

impl AdminListener {
    async fn start(admin: &AdminConfig, api: AdminApi) -> Result<Self, RelayError> {
        let stop = CancellationToken::new();
        let Some(address) = admin.listen else { return Ok(Self { stop, task: None }) };
        let listener = bind(address).await?;
        let address = listener.local_addr().unwrap_or(address);
        tracing::info!(%address, "listening");
        let task = tokio::spawn(posthaste_admin::serve(listener, api, stop.clone().cancelled_owned()));
        Ok(Self { stop, task: Some(AbortOnDropHandle::new(task)) })
    }

    async fn stop(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            let _ = task.await;
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, RelayError> {
    TcpListener::bind(address).await.map_err(|source| RelayError::Listen { address, source })
}
