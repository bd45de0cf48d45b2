//! `posthaste dead replay --canary N`: replays the N oldest events first and the others only if those are delivered.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use posthaste::admin::{Admin, Filter, PageRequest, Replay};
use posthaste::{EventId, EventRow, Status, StoreError};
use serde::Serialize;
use tokio::time::Instant;

use crate::commands::shared::batch_rate::BatchRate;
use crate::commands::shared::bulk_change::{self, BulkChange, StopReason};
use crate::commands::shared::pages::{self, MAX_REASON_CHARS};
use crate::errors::say;
use crate::output::{cut, events};
use posthaste_admin::terminal_escape;

/// Pause between two checks of the events that went first.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// If no engine has touched an event for this long, the user gets a hint that none may be running.
const NO_ENGINE_HINT_DELAY: Duration = Duration::from_secs(10);

/// Problems that are printed in full; the rest are only counted.
const MAX_REPORTED_PROBLEMS: usize = 10;

/// The canary: which events go first, and how long they may take.
pub(super) struct Canary<'a> {
    pub(super) filter: &'a Filter,
    pub(super) replay: Replay<'a>,
    pub(super) events: usize,
    pub(super) timeout: Duration,
}

/// Results of the events that went first. An event that is gone was deleted after its delivery.
#[derive(Debug, Default, Serialize)]
pub(super) struct CanaryOutcome {
    replayed: u64,
    delivered: u64,
    dead: Vec<DiedEvent>,
    waiting: Vec<WaitingEvent>,
}

#[derive(Debug, Serialize)]
struct DiedEvent {
    id: EventId,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct WaitingEvent {
    id: EventId,
    why: String,
    /// Whether an engine has touched the event since it was replayed.
    #[serde(skip)]
    seen: bool,
}

impl Canary<'_> {
    /// Replays the first events and waits for them. Records in `change` how many were replayed, and why the others
    /// must not follow.
    pub(super) async fn send(
        &self,
        admin: &dyn Admin,
        batch_rate: &mut BatchRate,
        bar: &ProgressBar,
        change: &mut BulkChange,
    ) -> anyhow::Result<CanaryOutcome> {
        let page = pages::full_page(admin, self.filter, PageRequest::first(self.events)).await;
        let mut outcome = CanaryOutcome::default();
        for row in page.context("the oldest events cannot be listed")?.items {
            if !self.send_one(admin, row.id, batch_rate, &mut outcome).await? {
                change.stopped = Some(StopReason::Interrupted);
                break;
            }
            bar.set_position(outcome.replayed);
        }
        change.changed = outcome.replayed;
        if change.stopped.is_none() {
            change.stopped = self.wait(admin, batch_rate, bar, &mut outcome).await?;
        }
        Ok(outcome)
    }

    /// Replays one event. Returns `false` if the user pressed Ctrl-C.
    async fn send_one(
        &self,
        admin: &dyn Admin,
        id: EventId,
        batch_rate: &mut BatchRate,
        outcome: &mut CanaryOutcome,
    ) -> anyhow::Result<bool> {
        if !batch_rate.wait_for_turn().await {
            return Ok(false);
        }
        let began = Instant::now();
        let replayed = admin.replay(&id, &self.replay).await;
        // Another operator may have replayed or discarded it in the meantime.
        if replayed.with_context(|| bulk_change::stopped(outcome.replayed))? {
            batch_rate.record(began, 1);
            outcome.replayed += 1;
            outcome.waiting.push(WaitingEvent { id, why: not_taken(), seen: false });
        }
        Ok(true)
    }

    /// Waits until each event is delivered or dead, or the time is up. Returns why the others must not follow.
    async fn wait(
        &self,
        admin: &dyn Admin,
        batch_rate: &BatchRate,
        bar: &ProgressBar,
        outcome: &mut CanaryOutcome,
    ) -> anyhow::Result<Option<StopReason>> {
        let (began, mut hinted) = (Instant::now(), false);
        loop {
            outcome.check(admin).await.with_context(|| bulk_change::stopped(outcome.replayed))?;
            if outcome.waiting.is_empty() {
                let arrived = outcome.dead.is_empty() && outcome.delivered > 0;
                return Ok((!arrived).then_some(StopReason::Canary));
            }
            if began.elapsed() >= self.timeout {
                return Ok(Some(StopReason::Canary));
            }
            if !hinted && began.elapsed() >= NO_ENGINE_HINT_DELAY && outcome.is_untouched() {
                bar.suspend(|| say("still waiting: is a relay running?"));
                hinted = true;
            }
            let left = self.timeout.saturating_sub(began.elapsed());
            if !batch_rate.wait(CHECK_INTERVAL.min(left)).await {
                return Ok(Some(StopReason::Interrupted));
            }
        }
    }
}

impl CanaryOutcome {
    /// Checks the events that were still waiting at the last check.
    async fn check(&mut self, admin: &dyn Admin) -> Result<(), StoreError> {
        for waiting in std::mem::take(&mut self.waiting) {
            let id = waiting.id;
            match admin.get(&id).await?.map(|detail| detail.row) {
                Some(row) if row.status.is_pending() => {
                    self.waiting.push(WaitingEvent::of(row, waiting.seen));
                }
                Some(row) if row.status == Status::Dead => {
                    self.dead.push(DiedEvent { id, reason: row.last_error });
                }
                Some(_) | None => self.delivered += 1,
            }
        }
        Ok(())
    }

    /// Whether no engine has touched any of the events.
    fn is_untouched(&self) -> bool {
        self.delivered == 0 && self.dead.is_empty() && self.waiting.iter().all(|waiting| !waiting.seen)
    }

    /// The problems, one line each.
    pub(super) fn problems(&self) -> Vec<String> {
        let dead = self.dead.iter().map(|died| {
            let reason = died.reason.as_deref().unwrap_or("no reason is known");
            (&died.id, format!("is DEAD again: {}", cut(reason, MAX_REASON_CHARS)))
        });
        let waiting =
            self.waiting.iter().map(|waiting| (&waiting.id, format!("is still waiting: {}", waiting.why)));
        if self.replayed == 0 {
            return vec!["error: none of the oldest was DEAD any more: run the command again".to_owned()];
        }
        let problems = dead.chain(waiting);
        let mut lines: Vec<String> = problems
            .take(MAX_REPORTED_PROBLEMS)
            .map(|(id, what)| terminal_escape::one_line(&format!("error: {id} {what}")))
            .collect();
        let rest = self.dead.len() + self.waiting.len() - lines.len();
        if rest > 0 {
            lines.push(format!("error: …and {} more", events(rest as u64)));
        }
        lines
    }
}

impl WaitingEvent {
    fn of(row: EventRow, seen: bool) -> Self {
        let touched = row.status == Status::Retry || row.locked_by.is_some() || row.deferrals > 0;
        let seen = seen || touched || row.parked.is_some();
        let why = match (&row.parked, &row.last_error) {
            (Some(route), _) => format!("its route {route} is paused or closed"),
            (None, Some(error)) => cut(error, MAX_REASON_CHARS),
            (None, None) if seen => "an engine works on it".to_owned(),
            (None, None) => not_taken(),
        };
        Self { id: row.id, why, seen }
    }
}

fn not_taken() -> String {
    "no engine has taken it: is a relay running?".to_owned()
}

impl fmt::Display for CanaryOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replayed, delivered, dead, waiting } = self;
        write!(
            f,
            "canary of {}: {delivered} delivered, {} DEAD again, {} still waiting",
            events(*replayed),
            dead.len(),
            waiting.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use posthaste::MemoryStore;
    use posthaste::memory::RawRow;

    use super::*;
    use crate::stop::Stop;

    fn row(id: &str, status: i64) -> RawRow {
        RawRow::default().with_id(id).with_status_code(status)
    }

    fn sent(ids: &[&str]) -> CanaryOutcome {
        let waiting = ids.iter().map(|id| WaitingEvent { id: (*id).into(), why: not_taken(), seen: false });
        CanaryOutcome { replayed: ids.len() as u64, waiting: waiting.collect(), ..CanaryOutcome::default() }
    }

    #[tokio::test]
    async fn check_separates_delivered_dead_and_waiting_events() {
        let store = MemoryStore::new();
        store.insert_raw(row("done", 1));
        store.insert_raw(row("dead", 3).with_last_error("refused\x1b[2J"));
        store.insert_raw(row("failed", 2).with_last_error("timeout"));
        store.insert_raw(row("new", 0));
        let mut outcome = sent(&["done", "gone", "dead", "failed", "new"]);
        outcome.check(&store).await.unwrap();
        assert_eq!(outcome.to_string(), "canary of 5 events: 2 delivered, 1 DEAD again, 2 still waiting");
        assert_eq!(
            outcome.problems(),
            [
                r"error: dead is DEAD again: refused\u{1b}[2J",
                "error: failed is still waiting: timeout",
                "error: new is still waiting: no engine has taken it: is a relay running?",
            ]
        );
    }

    #[test]
    fn event_that_waits_for_a_closed_route_names_the_route() {
        let store = MemoryStore::new();
        store.insert_raw(row("parked", 0));
        let mut row = store.rows().swap_remove(0);
        row.parked = Some("mail".into());
        let waiting = WaitingEvent::of(row, false);
        assert!(waiting.seen);
        assert_eq!(waiting.why, "its route mail is paused or closed");
    }

    #[test]
    fn problems_beyond_the_limit_are_only_counted() {
        let ids: Vec<String> = (0..13).map(|n| n.to_string()).collect();
        let outcome = sent(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        let lines = outcome.problems();
        assert_eq!((lines.len(), lines[10].as_str()), (11, "error: …and 3 events more"));
    }

    #[tokio::test(start_paused = true)]
    async fn canary_waits_until_its_timeout() {
        let store = MemoryStore::new();
        store.insert_raw(row("d-1", 3));
        let (filter, mut change) = (Filter::dead(), BulkChange::default());
        let canary =
            Canary { filter: &filter, replay: Replay::by("ann"), events: 5, timeout: 60 * CHECK_INTERVAL };
        let (began, mut batch_rate) = (Instant::now(), BatchRate::new(None, Stop::never()));
        let outcome =
            canary.send(&store, &mut batch_rate, &ProgressBar::hidden(), &mut change).await.unwrap();
        assert_eq!((change.changed, change.stopped), (1, Some(StopReason::Canary)));
        assert_eq!((outcome.waiting.len(), began.elapsed().as_millis() / 100), (1, 120));
    }

    #[tokio::test]
    async fn canary_without_events_stops_the_replay() {
        let (filter, mut change) = (Filter::dead(), BulkChange::default());
        let timeout = Duration::from_secs(3600);
        let canary = Canary { filter: &filter, replay: Replay::by("ann"), events: 5, timeout };
        let (store, mut batch_rate) = (MemoryStore::new(), BatchRate::new(None, Stop::never()));
        let outcome =
            canary.send(&store, &mut batch_rate, &ProgressBar::hidden(), &mut change).await.unwrap();
        assert_eq!((change.changed, change.stopped), (0, Some(StopReason::Canary)));
        assert_eq!(
            outcome.problems(),
            ["error: none of the oldest was DEAD any more: run the command again"]
        );
    }

    #[tokio::test]
    async fn ctrl_c_ends_the_wait_for_the_canary() {
        let store = MemoryStore::new();
        store.insert_raw(row("d-1", 3));
        let (filter, mut change, stop) = (Filter::dead(), BulkChange::default(), Stop::never());
        let timeout = Duration::from_secs(3600);
        let canary = Canary { filter: &filter, replay: Replay::by("ann"), events: 5, timeout };
        stop.request();
        let mut batch_rate = BatchRate::new(None, stop);
        canary.send(&store, &mut batch_rate, &ProgressBar::hidden(), &mut change).await.unwrap();
        assert_eq!((change.changed, change.stopped), (0, Some(StopReason::Interrupted)));
    }
}
