//! Starts everything, waits for signals and stops everything.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::measure;
use super::outbox::RelayOutbox;
use super::reload;
use super::signals::{Signals, Told};
use crate::api::{self, Api};
use crate::config::{AdminConfig, LogConfig, Problem, Problems, RelayConfig, Source};
use crate::escape;
use crate::failure::one_line;
use crate::logging;

/// How a relay runs, beside its configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// End when a store or a broker cannot be reached at the start.
    pub(crate) fail_fast: bool,
}

/// Runs a relay until it is told to stop. Exit code 0 after a stop in good order, 1 after a forced one.
pub(crate) async fn run(source: &Source, config: RelayConfig, options: Options) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().context("signals cannot be caught")?;
    let recorder = measure::install()?;
    let _upkeep = AbortOnDropHandle::new(tokio::spawn(measure::keep_up(recorder.clone())));
    let _repeats = AbortOnDropHandle::new(tokio::spawn(logging::report_repeats()));

    let outboxes = config.outboxes.into_iter().map(RelayOutbox::new).collect::<anyhow::Result<Vec<_>>>()?;
    let stopping = CancellationToken::new();
    let served = outboxes.iter().map(|outbox| outbox.served()).collect();
    let api = Arc::new(Api {
        outboxes: served,
        tokens: config.admin.tokens.clone(),
        ready_lag: config.admin.ready_lag,
        metrics: recorder,
        stopping: stopping.clone(),
    });
    let listener = Listener::start(&config.admin, api).await?;

    let mut relay =
        Relay { admin: config.admin, log: config.log, outboxes, starting: JoinSet::new(), stopping };
    relay.start(options.fail_fast);
    let ended = relay.serve(source, &mut signals).await;
    logging::report_now();
    // Who is told to end at once waits for nobody's last request.
    if matches!(ended, Ok(Ended::InGoodOrder) | Err(_)) {
        tokio::select! {
            () = listener.stop() => {}
            () = signals.stop() => {}
        }
    }
    ended.map(|ended| match ended {
        Ended::InGoodOrder => ExitCode::SUCCESS,
        Ended::AtOnce => ExitCode::FAILURE,
    })
}

/// How a relay stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    InGoodOrder,
    /// By a second signal.
    AtOnce,
}

/// The outboxes of a running relay.
struct Relay {
    admin: AdminConfig,
    log: LogConfig,
    outboxes: Vec<Arc<RelayOutbox>>,
    /// Each ends when its engine runs; one that cannot ends the relay.
    starting: JoinSet<anyhow::Result<()>>,
    /// Tells the listener.
    stopping: CancellationToken,
}

impl Relay {
    fn start(&mut self, fail_fast: bool) {
        for outbox in &self.outboxes {
            let outbox = Arc::clone(outbox);
            self.starting.spawn(async move { outbox.start(fail_fast).await });
        }
    }

    async fn serve(&mut self, source: &Source, signals: &mut Signals) -> anyhow::Result<Ended> {
        loop {
            tokio::select! {
                Some(started) = self.starting.join_next() => {
                    if let Err(error) = started.context("an outbox could not start").and_then(|opened| opened) {
                        self.stop_unless_forced(signals).await;
                        return Err(error);
                    }
                }
                told = signals.next() => match told {
                    // The file may be a pipe that nobody writes to.
                    Told::Reload => tokio::select! {
                        () = self.reload(source) => {}
                        () = signals.stop() => return Ok(self.stop_unless_forced(signals).await),
                    },
                    Told::Stop => return Ok(self.stop_unless_forced(signals).await),
                },
            }
        }
    }

    /// Takes over what the configuration says now, all of it or nothing. Signals are heard while engines are
    /// replaced, which may take a while.
    async fn reload(&mut self, source: &Source) {
        tracing::info!("reading the configuration again");
        let changes = match load(source).await {
            Ok(config) => reload::compare(&self.log, &self.admin, &self.outboxes, config),
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
            Err(error) => refuse(&error),
        }
    }

    async fn stop_unless_forced(&self, signals: &mut Signals) -> Ended {
        tracing::info!("stopping; a second signal ends the relay at once");
        tokio::select! {
            () = self.stop() => Ended::InGoodOrder,
            () = signals.stop() => {
                tracing::warn!("ended at once; what was under way is delivered again when its leases have lapsed");
                Ended::AtOnce
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

/// Says why a configuration was not taken over: all of it in one line, which nothing leaves out as a repeat.
fn refuse(error: &anyhow::Error) {
    let why = match error.downcast_ref::<Problems>() {
        Some(problems) => {
            escape::one_line(&problems.iter().map(Problem::in_one_line).collect::<Vec<_>>().join("; "))
        }
        None => one_line(error.as_ref()),
    };
    tracing::error!(error = %why, "the configuration was not taken over; nothing changed");
}

/// Apart from those who work: a file may be a pipe that nobody has written yet.
async fn load(source: &Source) -> anyhow::Result<RelayConfig> {
    let source = source.clone();
    Ok(tokio::task::spawn_blocking(move || source.load())
        .await
        .context("the configuration was not read")??)
}

/// The admin listener, if there is one.
struct Listener {
    stop: CancellationToken,
    task: Option<AbortOnDropHandle<()>>,
}

impl Listener {
    async fn start(admin: &AdminConfig, api: Arc<Api>) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let Some(address) = admin.listen else { return Ok(Self { stop, task: None }) };
        let listener = bind(address).await?;
        let address = listener.local_addr().unwrap_or(address);
        tracing::info!(%address, "listening");
        let task = tokio::spawn(api::serve(listener, api, stop.clone().cancelled_owned()));
        Ok(Self { stop, task: Some(AbortOnDropHandle::new(task)) })
    }

    async fn stop(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            let _ = task.await;
        }
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "nobody can listen on {address}: choose another address with --listen or admin.listen, or \"off\""
        )
    })
}
