//! Background tasks: observe every source at an interval, and carry out effects.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use posthaste::StoreError;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::app::{Effect, Message, ReplayTarget};
use super::source::Source;
use crate::errors;

/// Reply timeout of a source. After it the source is shown as not responding, and observed again.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Events per call of a replay. Each call is one transaction, which must not block other writers for long.
const REPLAY_BATCH_EVENTS: u64 = 500;

/// Capacity of the queue from the tasks to the screen.
const MAX_QUEUED_MESSAGES: usize = 64;

#[derive(Debug)]
pub(super) struct BackgroundTasks {
    sources: Arc<[Box<dyn Source>]>,
    /// One per source; notified to observe it without waiting for the interval.
    now: Arc<[Notify]>,
    tasks: JoinSet<()>,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
}

impl BackgroundTasks {
    /// Starts one task per source, so that a source that hangs does not delay the others.
    pub(super) fn start(sources: Arc<[Box<dyn Source>]>, interval: Duration) -> Self {
        let (sender, receiver) = channel(MAX_QUEUED_MESSAGES);
        let now: Arc<[Notify]> = sources.iter().map(|_| Notify::new()).collect();
        let mut tasks = JoinSet::new();
        for place in 0..sources.len() {
            tasks.spawn(observe_repeatedly(sources.clone(), place, now.clone(), interval, sender.clone()));
        }
        Self { sources, now, tasks, sender, receiver }
    }

    /// The next message from a task.
    pub(super) async fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            tokio::select! {
                Some(message) = self.receiver.recv() => return Ok(message),
                Some(ended) = self.tasks.join_next() => match ended {
                    Err(error) if error.is_panic() => bail!("a part of the program failed: start it again"),
                    _ => {}
                },
            }
        }
    }

    /// Starts the task for an effect.
    pub(super) fn begin(&mut self, effect: Effect) {
        let (sources, sender) = (self.sources.clone(), self.sender.clone());
        match effect {
            Effect::Quit => {}
            Effect::Observe(source) => self.now.get(source).into_iter().for_each(Notify::notify_one),
            Effect::List(target) => {
                self.tasks.spawn(async move {
                    let result = with_timeout(sources[target.source].list(&target.group)).await;
                    let _ = sender.send(Message::Listed { target, result }).await;
                });
            }
            Effect::Count(target) => {
                self.tasks.spawn(async move {
                    let result = with_timeout(sources[target.source].count(&target.group)).await;
                    let _ = sender.send(Message::Counted { target, result }).await;
                });
            }
            Effect::Replay(target, agreed) => drop(self.tasks.spawn(replay(sources, target, agreed, sender))),
        }
    }
}

/// Observes a source until the receiver is gone.
async fn observe_repeatedly(
    sources: Arc<[Box<dyn Source>]>,
    source: usize,
    now: Arc<[Notify]>,
    interval: Duration,
    sender: Sender<Message>,
) {
    loop {
        let result = with_timeout(sources[source].observe()).await;
        if sender.send(Message::Observed { source, at: Instant::now(), result }).await.is_err() {
            return;
        }
        let _ = timeout(interval, now[source].notified()).await;
    }
}

async fn replay(sources: Arc<[Box<dyn Source>]>, target: ReplayTarget, agreed: u64, sender: Sender<Message>) {
    let result = in_batches(&*sources[target.source], &target, agreed, &sender).await;
    let result = result.map_err(|error| errors::in_a_line(&error));
    let _ = sender.send(Message::Replayed { target, result }).await;
}

/// Replays the confirmed number of events and no more: an event that dies again immediately would otherwise be replayed
/// for ever. There is no time limit.
async fn in_batches(
    source: &dyn Source,
    target: &ReplayTarget,
    agreed: u64,
    sender: &Sender<Message>,
) -> anyhow::Result<u64> {
    let (began, mut replayed) = (Instant::now(), 0);
    while replayed < agreed {
        // A replayed event may die again immediately. From the second batch on, only events that were DEAD at the start
        // count.
        let since = (replayed > 0).then_some(began);
        let more = source.replay(&target.group, since, REPLAY_BATCH_EVENTS.min(agreed - replayed)).await?;
        if more == 0 {
            break;
        }
        replayed += more;
        let _ = sender.send(Message::Replaying(replayed)).await;
    }
    Ok(replayed)
}

async fn with_timeout<T>(work: impl Future<Output = anyhow::Result<T>>) -> Result<T, String> {
    let result = timeout(SOURCE_TIMEOUT, work).await;
    let result = result.unwrap_or_else(|_| Err(StoreError::Timeout(SOURCE_TIMEOUT).into()));
    result.map_err(|error| errors::in_a_line(&error))
}
