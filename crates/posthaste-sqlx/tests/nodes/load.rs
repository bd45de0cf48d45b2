//! Load of the node tests: services that write, and the journal of their transactions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste::CommitError;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::{NodeOutput, delayed_event, event_with_payload};
use crate::support::{Pool, Writer};

/// The results of transactions, by the ids of their events.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    pub committed: BTreeSet<String>,
    pub rolled_back: BTreeSet<String>,
    /// The reply to COMMIT was lost.
    pub unknown: BTreeSet<String>,
}

impl Journal {
    pub fn absorb(&mut self, other: Journal) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
        self.unknown.extend(other.unknown);
    }

    /// Checks that no committed event is lost, and that no rolled back event was delivered.
    pub fn check<'a>(&self, delivered: impl IntoIterator<Item = &'a str>) {
        let delivered: BTreeSet<&str> = delivered.into_iter().collect();
        let is_delivered = |id: &&String| delivered.contains(id.as_str());
        let lost: Vec<_> = self.committed.iter().filter(|id| !is_delivered(id)).take(5).collect();
        assert!(lost.is_empty(), "lost, among others: {lost:?}");
        let is_written = |id: &&&str| self.committed.contains(**id) || self.unknown.contains(**id);
        let invented: Vec<_> = delivered.iter().filter(|id| !is_written(id)).take(5).collect();
        assert!(invented.is_empty(), "invented, among others: {invented:?}");
        let undone: Vec<_> = self.rolled_back.iter().filter(is_delivered).take(5).collect();
        assert!(undone.is_empty(), "rolled back and delivered: {undone:?}");
    }

    /// The journal that a node has reported. A killed node may not have reported the end of its last transaction.
    pub fn of(output: &NodeOutput) -> Self {
        let ids = |word| output.all(word).iter().flat_map(|ids| ids.split(' ')).map(str::to_owned).collect();
        let (tried, committed, rolled_back) = (ids("TRIES"), ids("COMMITTED"), ids("ROLLED_BACK"));
        let known: BTreeSet<String> = &committed | &rolled_back;
        Self { unknown: &tried - &known, committed, rolled_back }
    }

    async fn transact(&mut self, writer: &Writer, pool: &Pool, ids: Vec<String>, work: Work) -> TxOutcome {
        let ended = transact(writer, pool, &ids, work).await;
        match ended {
            TxOutcome::Committed => self.committed.extend(ids),
            TxOutcome::RolledBack => self.rolled_back.extend(ids),
            TxOutcome::Unknown => self.unknown.extend(ids),
        }
        ended
    }
}

/// What a transaction does besides writing its events.
#[derive(Clone, Copy)]
struct Work {
    roll_back: bool,
    delay: Duration,
}

#[derive(Clone, Copy, Debug)]
enum TxOutcome {
    Committed,
    RolledBack,
    Unknown,
}

/// Every tenth transaction is rolled back.
fn work(round: usize, delay: Duration) -> Work {
    Work { roll_back: round % 10 == 9, delay }
}

async fn transact(writer: &Writer, pool: &Pool, ids: &[String], work: Work) -> TxOutcome {
    let delayed = |id: &String| match work.delay {
        Duration::ZERO => event_with_payload(id),
        delay => delayed_event(id, delay),
    };
    // A transaction without a COMMIT is rolled back, by the client or by the server.
    let Ok(mut tx) = writer.begin(pool).await else { return TxOutcome::RolledBack };
    if tx.write_all(ids.iter().map(delayed).collect()).await.is_err() {
        return TxOutcome::RolledBack;
    }
    if work.roll_back {
        let _ = tx.rollback().await;
        return TxOutcome::RolledBack;
    }
    match tx.commit().await {
        Ok(()) => TxOutcome::Committed,
        Err(CommitError::Unknown(_)) => TxOutcome::Unknown,
        Err(_) => TxOutcome::RolledBack,
    }
}

/// Writes this many events as fast as one service can, up to three per transaction. Reports each transaction before its
/// COMMIT and after it.
pub async fn write_as_service(
    writer: &Writer,
    pool: &Pool,
    name: &str,
    count: usize,
    delay: Duration,
    report: impl Fn(&str, &str),
) -> Journal {
    let mut journal = Journal::default();
    let (mut round, mut written) = (0, 0);
    while written < count {
        let size = (1 + round % 3).min(count - written);
        let ids: Vec<_> = (written..written + size).map(|n| format!("{name}-{n}")).collect();
        let text = ids.join(" ");
        report("TRIES", &text);
        match journal.transact(writer, pool, ids, work(round, delay)).await {
            TxOutcome::Committed => report("COMMITTED", &text),
            TxOutcome::RolledBack => report("ROLLED_BACK", &text),
            TxOutcome::Unknown => {}
        }
        round += 1;
        written += size;
    }
    journal
}

/// Services that write until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    writers: JoinSet<Journal>,
}

impl Load {
    /// Starts this many services, each with a pause after every transaction.
    pub fn start(name: &str, writer: &Writer, pool: &Pool, writers: usize, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for n in 0..writers {
            let (writer, pool, stop) = (writer.clone(), pool.clone(), Arc::clone(&stop));
            let name = format!("{name}{n}");
            tasks.spawn(async move {
                let mut journal = Journal::default();
                let mut round = 0;
                let mut tick = tokio::time::interval(pause);
                tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !stop.load(Ordering::Relaxed) {
                    let ids = (0..1 + round % 3).map(|i| format!("{name}-{round}-{i}")).collect();
                    journal.transact(&writer, &pool, ids, work(round, Duration::ZERO)).await;
                    round += 1;
                    tick.tick().await;
                }
                journal
            });
        }
        Self { stop, writers: tasks }
    }

    pub async fn stop(mut self) -> Journal {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Journal::default();
        while let Some(journal) = self.writers.join_next().await {
            all.absorb(journal.expect("no writer panics"));
        }
        all
    }
}
