//! Background tasks: each source is observed at an interval, and what the reader asked for is done.

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

/// A source that has not responded by then is shown as silent, and asked again.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Events per call of a replay: each is one transaction, which must not hold others up for long.
const REPLAY_BATCH_EVENTS: u64 = 500;

/// Messages that wait to be handled by the screen.
const MAX_QUEUED_MESSAGES: usize = 64;

#[derive(Debug)]
pub(super) struct BackgroundTasks {
    sources: Arc<[Box<dyn Source>]>,
    /// One per source: it is to be observed without waiting for the interval.
    now: Arc<[Notify]>,
    tasks: JoinSet<()>,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
}

impl BackgroundTasks {
    /// Looks at every source, each at its own pace: one that hangs holds up no other.
    pub(super) fn start(sources: Arc<[Box<dyn Source>]>, interval: Duration) -> Self {
        let (sender, receiver) = channel(MAX_QUEUED_MESSAGES);
        let now: Arc<[Notify]> = sources.iter().map(|_| Notify::new()).collect();
        let mut tasks = JoinSet::new();
        for place in 0..sources.len() {
            tasks.spawn(observe_repeatedly(sources.clone(), place, now.clone(), interval, sender.clone()));
        }
        Self { sources, now, tasks, sender, receiver }
    }

    /// The next answer.
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

    /// Does what the reader asked for.
    pub(super) fn begin(&mut self, effect: Effect) {
        let (sources, sender) = (self.sources.clone(), self.sender.clone());
        match effect {
            Effect::Quit => {}
            Effect::Observe(source) => self.now.get(source).into_iter().for_each(Notify::notify_one),
            Effect::List(target) => {
                self.tasks.spawn(async move {
                    let answer = answered(sources[target.source].list(&target.group)).await;
                    let _ = sender.send(Message::Listed { target, answer }).await;
                });
            }
            Effect::Count(target) => {
                self.tasks.spawn(async move {
                    let answer = answered(sources[target.source].count(&target.group)).await;
                    let _ = sender.send(Message::Counted { target, answer }).await;
                });
            }
            Effect::Replay(target, agreed) => drop(self.tasks.spawn(replay(sources, target, agreed, sender))),
        }
    }
}

/// Until nobody listens any more.
async fn observe_repeatedly(
    sources: Arc<[Box<dyn Source>]>,
    source: usize,
    now: Arc<[Notify]>,
    interval: Duration,
    sender: Sender<Message>,
) {
    loop {
        let answer = answered(sources[source].observe()).await;
        if sender.send(Message::Observed { source, at: Instant::now(), answer }).await.is_err() {
            return;
        }
        let _ = timeout(interval, now[source].notified()).await;
    }
}

async fn replay(sources: Arc<[Box<dyn Source>]>, target: ReplayTarget, agreed: u64, sender: Sender<Message>) {
    let answer = in_batches(&*sources[target.source], &target, agreed, &sender).await;
    let answer = answer.map_err(|error| errors::in_a_line(&error));
    let _ = sender.send(Message::Replayed { target, answer }).await;
}

/// As many events as were agreed on, however long it takes, and no more: an event that dies again at once would be
/// replayed for ever.
async fn in_batches(
    source: &dyn Source,
    target: &ReplayTarget,
    agreed: u64,
    sender: &Sender<Message>,
) -> anyhow::Result<u64> {
    let (began, mut replayed) = (Instant::now(), 0);
    while replayed < agreed {
        // What has gone out may die again at once.
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

async fn answered<T>(work: impl Future<Output = anyhow::Result<T>>) -> Result<T, String> {
    let answer = timeout(SOURCE_TIMEOUT, work).await;
    let answer = answer.unwrap_or_else(|_| Err(StoreError::Timeout(SOURCE_TIMEOUT).into()));
    answer.map_err(|error| errors::in_a_line(&error))
}
