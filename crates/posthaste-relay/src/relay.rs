//! A running relay: starts everything, obeys commands, stops everything.

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

/// What a running relay can be told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RelayCommand {
    /// Read this configuration and take it over: all of it, or nothing if that is not possible while it runs.
    Reload(Source),
    /// Finish what is under way and end. A second one ends it immediately.
    Stop,
}

/// How a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayExit {
    /// What was under way is finished, and everything else went back to the stores.
    Gracefully,
    /// By a second [`RelayCommand::Stop`]: what was under way is delivered again when its leases have lapsed.
    Forced,
}

/// A relay that does not run yet.
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
    /// A destination or a setting is wrong, or the admin listener cannot listen. A store or a broker that cannot be
    /// reached is not an error: it is tried again.
    pub async fn run(config: RelayConfig, shutdown: impl Future<Output = ()>) -> Result<(), RelayError> {
        let (sender, commands) = mpsc::channel(1);
        let mut running = pin!(Self::new(config).run_with(commands));
        tokio::select! {
            ended = &mut running => return ended.map(drop),
            () = shutdown => {}
        }
        // The channel has room for one command, and this is the first.
        let _ = sender.try_send(RelayCommand::Stop);
        running.await.map(drop)
    }

    /// A relay with this configuration.
    pub fn new(config: RelayConfig) -> Self {
        Self { config, fail_fast: false, metrics: None }
    }

    /// Ends with an error when a store or a broker cannot be reached at the start. Default: tries again.
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// What the admin listener shows at `/metrics`, such as the text of [`metrics::install`](crate::metrics::install).
    /// Default: there is no `/metrics`.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Box::new(render));
        self
    }

    /// Runs until a command stops it.
    ///
    /// # Errors
    ///
    /// As of [`run`](Self::run); with `fail_fast` also a store or a broker that cannot be reached.
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
        // A forced end waits for no client's last request.
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

/// Waits for the next command to stop; others are dropped. A channel that is closed sends none.
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
    admin: AdminConfig,
    log: LogConfig,
    outboxes: Vec<Arc<RelayOutbox>>,
    /// Each task ends when its engine runs; one that fails ends the relay.
    starting: JoinSet<Result<(), RelayError>>,
    /// Cancelled when the relay begins to stop: it is not ready from then on.
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
                    // The file may be a pipe that has no writer yet.
                    Some(RelayCommand::Reload(source)) => tokio::select! {
                        () = self.reload(source) => {}
                        () = stop_command(commands) => return Ok(self.stop_unless_forced(commands).await),
                    },
                    Some(RelayCommand::Stop) | None => return Ok(self.stop_unless_forced(commands).await),
                },
            }
        }
    }

    /// Takes over what the configuration says now, all of it or nothing. Commands are obeyed while engines are
    /// replaced, which may take a while.
    async fn reload(&mut self, source: Source) {
        tracing::info!("reading the configuration again");
        // On a thread of its own: a file may be a pipe that has no writer yet.
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

/// Logs why a configuration was not taken over: all of it in one line, so that none of it is suppressed as a repeat.
fn refuse(why: &str) {
    tracing::error!(error = %why, "the configuration was not taken over; nothing changed");
}

fn in_one_line(problems: &Problems) -> String {
    terminal_escape::one_line(&problems.iter().map(Problem::in_one_line).collect::<Vec<_>>().join("; "))
}

/// The admin listener, if there is one.
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
