//! Signals as commands for a relay: SIGTERM and Ctrl-C stop it, SIGHUP reloads its configuration.

use std::io;

use posthaste_relay::RelayCommand;
use posthaste_relay::config::Source;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Catches the signals: from now on none of them ends the process by itself.
pub(super) fn listen(source: Source) -> io::Result<mpsc::Receiver<RelayCommand>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let (commands, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let command = tokio::select! {
                biased;
                _ = terminate.recv() => RelayCommand::Stop,
                _ = interrupt.recv() => RelayCommand::Stop,
                _ = hang_up.recv() => RelayCommand::Reload(source.clone()),
            };
            // Waits until the relay takes the command, so that a stop is never lost. Meanwhile the system merges
            // further signals.
            if commands.send(command).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
