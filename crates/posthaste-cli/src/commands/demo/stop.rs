//! Ctrl-C: once to end in good order, twice to end at once.

use tokio::sync::watch;

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Whether somebody asked to stop.
#[derive(Clone, Debug)]
pub(super) struct Stop(watch::Sender<bool>);

impl Stop {
    pub(super) fn on_ctrl_c() -> Self {
        let stop = Self(watch::Sender::new(false));
        let on_signal = stop.clone();
        tokio::spawn(async move {
            // Where Ctrl-C cannot be caught, it ends the process as it always did.
            if tokio::signal::ctrl_c().await.is_ok() {
                on_signal.ask();
                let _ = tokio::signal::ctrl_c().await;
                std::process::exit(INTERRUPTED);
            }
        });
        stop
    }

    pub(super) fn ask(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    pub(super) async fn asked(&self) {
        // It ends only with the sender, which is here.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}
