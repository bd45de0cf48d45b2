//! What the process is told: stop, stop at once, read the configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals of a relay. From the moment this exists none of them ends the process by itself.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// SIGTERM, or Ctrl-C.
    Stop,
    /// SIGHUP.
    Reload,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one. Two of a kind that come at once may be one.
    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }

    /// Waits until the process is told to stop; what else comes is left alone.
    pub(super) async fn stop(&mut self) {
        while self.next().await != Told::Stop {}
    }
}
