//! What goes on in the background: looks at every source, and what the reader asked for.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use posthaste::StoreError;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::app::{Effect, Message, Target};
use super::source::Source;
use crate::failure;

/// Whoever has not answered by then is shown as silent, and asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers that wait to be drawn.
const ANSWERS: usize = 64;

#[derive(Debug)]
pub(super) struct Work {
    sources: Arc<[Source]>,
    /// One per source: somebody wants a look now.
    now: Arc<[Notify]>,
    tasks: JoinSet<()>,
    tell: Sender<Message>,
    told: Receiver<Message>,
}

impl Work {
    /// Looks at every source, each at its own pace: one that hangs holds up no other.
    pub(super) fn start(sources: Arc<[Source]>, interval: Duration) -> Self {
        let (tell, told) = channel(ANSWERS);
        let now: Arc<[Notify]> = sources.iter().map(|_| Notify::new()).collect();
        let mut tasks = JoinSet::new();
        for place in 0..sources.len() {
            tasks.spawn(look_on(sources.clone(), place, now.clone(), interval, tell.clone()));
        }
        Self { sources, now, tasks, tell, told }
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            tokio::select! {
                Some(message) = self.told.recv() => return Ok(message),
                Some(ended) = self.tasks.join_next() => match ended {
                    Err(error) if error.is_panic() => bail!("a part of the program failed: start it again"),
                    _ => {}
                },
            }
        }
    }

    /// Does what the reader asked for.
    pub(super) fn begin(&mut self, effect: Effect) {
        let (sources, tell) = (self.sources.clone(), self.tell.clone());
        match effect {
            Effect::Quit => {}
            Effect::Look(source) => self.now.get(source).into_iter().for_each(Notify::notify_one),
            Effect::List(target) => {
                self.tasks.spawn(async move {
                    let answer = answered(sources[target.source].list(&target.group)).await;
                    let _ = tell.send(Message::Listed { target, answer }).await;
                });
            }
            Effect::Count(target) => {
                self.tasks.spawn(async move {
                    let answer = answered(sources[target.source].count(&target.group)).await;
                    let _ = tell.send(Message::Counted { target, answer }).await;
                });
            }
            Effect::Replay(target, agreed) => drop(self.tasks.spawn(replay(sources, target, agreed, tell))),
        }
    }
}

/// Until nobody listens any more.
async fn look_on(
    sources: Arc<[Source]>,
    source: usize,
    now: Arc<[Notify]>,
    interval: Duration,
    tell: Sender<Message>,
) {
    loop {
        let answer = answered(sources[source].look()).await;
        if tell.send(Message::Looked { source, at: Instant::now(), answer }).await.is_err() {
            return;
        }
        let _ = timeout(interval, now[source].notified()).await;
    }
}

async fn replay(sources: Arc<[Source]>, target: Target, agreed: u64, tell: Sender<Message>) {
    let answer = in_batches(&sources[target.source], &target, agreed, &tell).await;
    let answer = answer.map_err(|error| failure::in_a_line(&error));
    let _ = tell.send(Message::Replayed { target, answer }).await;
}

/// As many events as were agreed on, however long it takes, and no more: an event that dies again at once would be
/// replayed for ever.
async fn in_batches(
    source: &Source,
    target: &Target,
    agreed: u64,
    tell: &Sender<Message>,
) -> anyhow::Result<u64> {
    let (began, mut replayed) = (Instant::now(), 0);
    while replayed < agreed {
        // What has gone out may die again at once.
        let since = (replayed > 0).then_some(began);
        let more = source.replay(&target.group, since, agreed - replayed).await?;
        if more == 0 {
            break;
        }
        replayed += more;
        let _ = tell.send(Message::Replaying(replayed)).await;
    }
    Ok(replayed)
}

async fn answered<T>(work: impl Future<Output = anyhow::Result<T>>) -> Result<T, String> {
    let answer = timeout(PATIENCE, work).await;
    let answer = answer.unwrap_or_else(|_| Err(StoreError::Timeout(PATIENCE).into()));
    answer.map_err(|error| failure::in_a_line(&error))
}
