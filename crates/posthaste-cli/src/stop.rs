//! Ctrl-C: the first stops gracefully, the second ends the process immediately.

#![cfg_attr(not(feature = "full"), allow(dead_code, reason = "the demo needs a part of it"))]

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Exit code that shells expect of an interrupted program.
const INTERRUPTED_EXIT_CODE: i32 = 130;

/// A request to stop. All clones share the same state.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Sender<bool>);

impl Stop {
    /// A `Stop` that only [`request`](Self::request) sets.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Requests the stop on the first Ctrl-C, and exits on the second.
    pub(crate) fn on_ctrl_c() -> Self {
        let stop = Self(watch::Sender::new(false));
        let on_signal = stop.clone();
        tokio::spawn(async move {
            // If Ctrl-C cannot be caught, it still ends the process.
            if tokio::signal::ctrl_c().await.is_ok() {
                on_signal.request();
                let _ = tokio::signal::ctrl_c().await;
                std::process::exit(INTERRUPTED_EXIT_CODE);
            }
        });
        stop
    }

    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until this instant. Returns `false` if the stop was requested before.
    pub(crate) async fn wait_until(&self, instant: Instant) -> bool {
        tokio::select! {
            biased;
            () = self.requested() => false,
            () = sleep_until(instant) => true,
        }
    }

    /// Waits until the stop is requested.
    pub(crate) async fn requested(&self) {
        // The receiver fails only when the sender is gone, and `self` holds it.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}
