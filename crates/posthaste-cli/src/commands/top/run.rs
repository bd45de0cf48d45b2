//! The event loop of `top`: keys, messages and ticks come in, and each of them redraws the screen. It never waits for a
//! source.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use crossterm::event::{Event, EventStream};
use futures_util::StreamExt as _;
use posthaste::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::app::{App, Effect, Message, SourceInfo};
use super::source::Source;
use super::source_tasks::BackgroundTasks;
use super::terminal::Screen;
use crate::errors::say;
use crate::output::events;

/// Interval at which ages and the clock are redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Time that a source gets to close when the user quits.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn run(sources: Vec<Box<dyn Source>>, interval: Duration) -> anyhow::Result<()> {
    let sources: Arc<[Box<dyn Source>]> = sources.into();
    let info = sources.iter().map(|source| SourceInfo { label: source.label(), actor: source.actor() });
    let mut app = App::new(info.collect(), Timestamp::now());
    let ended = watch(&mut app, sources.clone(), interval).await;
    for source in &*sources {
        // A failure is harmless: the database closes its side of a lost connection itself.
        let _ = timeout(CLOSE_TIMEOUT, source.close()).await;
    }
    if let Some((done, of)) = app.replaying {
        say(&format!(
            "the replay was abandoned after {} of {of}: replay the group again for the rest",
            events(done)
        ));
    }
    ended
}

async fn watch(app: &mut App, sources: Arc<[Box<dyn Source>]>, interval: Duration) -> anyhow::Result<()> {
    let mut signals = TerminationSignals::listen().context("signals cannot be caught")?;
    let mut screen = Screen::open().context("the terminal cannot be used")?;
    let mut background = BackgroundTasks::start(sources, interval);
    let (mut keys, mut ticks) = (EventStream::new(), tokio::time::interval(REDRAW_INTERVAL));
    loop {
        screen.draw(app).context("the terminal cannot be drawn on")?;
        let message = tokio::select! {
            biased;
            () = signals.next() => return Ok(()),
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) => Message::Key(key),
                Some(Ok(_)) => Message::Tick(Timestamp::now()),
                Some(Err(error)) => return Err(error).context("the keyboard cannot be read"),
                None => bail!("the keyboard is gone"),
            },
            message = background.next() => message?,
            _ = ticks.tick() => Message::Tick(Timestamp::now()),
        };
        match app.update(message) {
            Some(Effect::Quit) => return Ok(()),
            Some(effect) => background.begin(effect),
            None => {}
        }
    }
}

/// The signals that end a program. While this exists, none of them ends the process by itself.
struct TerminationSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl TerminationSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
