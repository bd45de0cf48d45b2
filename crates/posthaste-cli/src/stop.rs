//! Ctrl-C: once to end in good order, twice to end at once.

#![cfg_attr(not(feature = "full"), allow(dead_code, reason = "the demo needs a part of it"))]

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// What a shell expects of a program that was interrupted.
const INTERRUPTED_EXIT_CODE: i32 = 130;

/// Whether somebody asked to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Sender<bool>);

impl Stop {
    /// Nobody asks, unless by [`ask`](Self::ask).
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn on_ctrl_c() -> Self {
        let stop = Self(watch::Sender::new(false));
        let on_signal = stop.clone();
        tokio::spawn(async move {
            // Where Ctrl-C cannot be caught, it ends the process as it always did.
            if tokio::signal::ctrl_c().await.is_ok() {
                on_signal.ask();
                let _ = tokio::signal::ctrl_c().await;
                std::process::exit(INTERRUPTED_EXIT_CODE);
            }
        });
        stop
    }

    pub(crate) fn ask(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for this instant. False: somebody asked to stop before it came.
    pub(crate) async fn rest_until(&self, instant: Instant) -> bool {
        tokio::select! {
            biased;
            () = self.asked() => false,
            () = sleep_until(instant) => true,
        }
    }

    pub(crate) async fn asked(&self) {
        // It ends only with the sender, which is here.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}
