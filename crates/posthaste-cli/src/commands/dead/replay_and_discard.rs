//! `posthaste dead replay` and `posthaste dead discard`: counting, consent and batches, for either change.

use std::process::ExitCode;

use anyhow::Context;
use posthaste::EventId;
use posthaste::admin::{Admin, Filter, Replay};
use posthaste_admin::{DeadAction, terminal_escape};
use posthaste_measurements::progress_bar;
use serde::Serialize;
use tokio::time::Instant;

use super::args::{DiscardArgs, ReplayArgs, ReplaySpeed};
use super::canary::{self, Canary};
use crate::args::{ConsentArgs, EventSelection};
use crate::commands::shared::batch_rate::BatchRate;
use crate::commands::shared::bulk_change::{self, BulkChange, Decision};
use crate::connect;
use crate::errors::say;
use crate::output::{Output, Report, events};
use crate::stop::Stop;

pub(super) async fn replay(args: ReplayArgs, output: Output) -> anyhow::Result<ExitCode> {
    let ReplayArgs { selection, speed, forget_progress, consent, store } = args;
    let actor = consent.actor();
    let verb = DeadAction::Replay(Replay::by(&actor).with_forget_progress(forget_progress));
    let store = store.spec()?;
    let change = DeadChange { verb, selection, speed, consent, knows_deaths: store.layout.is_none(), output };
    print(connect::with_admin(&store, async |admin| change.run(admin).await).await?, output)
}

pub(super) async fn discard(args: DiscardArgs, output: Output) -> anyhow::Result<ExitCode> {
    let DiscardArgs { selection, consent, store } = args;
    let actor = consent.actor();
    let (verb, speed) = (DeadAction::Discard(&actor), ReplaySpeed::default());
    let change = DeadChange { verb, selection, speed, consent, knows_deaths: true, output };
    print(connect::with_admin(&store.spec()?, async |admin| change.run(admin).await).await?, output)
}

/// `done` is `None` if the user declined.
fn print(done: Option<DeadChangeReport>, output: Output) -> anyhow::Result<ExitCode> {
    let Some(done) = done else { return Ok(ExitCode::FAILURE) };
    for id in &done.change.unchanged {
        say(&format!("error: {} is not the id of a DEAD event", terminal_escape::one_line(id.as_str())));
    }
    if let Some(outcome) = &done.canary {
        outcome.problems().iter().for_each(|problem| say(problem));
    }
    output.print(&done)?;
    Ok(done.change.exit_code())
}

/// Result of the command: the change, and the results of the canary.
#[derive(Debug, Serialize)]
struct DeadChangeReport {
    #[serde(flatten)]
    change: BulkChange,
    #[serde(skip_serializing_if = "Option::is_none")]
    canary: Option<canary::CanaryOutcome>,
}

impl From<BulkChange> for DeadChangeReport {
    fn from(change: BulkChange) -> Self {
        Self { change, canary: None }
    }
}

impl Report for DeadChangeReport {
    fn text(&self) -> String {
        let canary = self.canary.as_ref().map(|outcome| format!("{outcome}\n")).unwrap_or_default();
        canary + &self.change.text()
    }
}

/// A replay or a discard, as the user requested it.
struct DeadChange<'a> {
    verb: DeadAction<'a>,
    selection: EventSelection,
    speed: ReplaySpeed,
    consent: ConsentArgs,
    /// Whether the store records when an event died. A foreign table has no column for that.
    knows_deaths: bool,
    output: Output,
}

impl DeadChange<'_> {
    /// Returns `None` if the user declined.
    async fn run(&self, admin: &dyn Admin) -> anyhow::Result<Option<DeadChangeReport>> {
        match self.selection.named.all {
            true => self.change_all(admin, &self.selection.filter.dead()).await,
            false => {
                Ok(self.change_named(admin, &self.selection.named.ids()).await?.map(DeadChangeReport::from))
            }
        }
    }

    async fn change_all(
        &self,
        admin: &dyn Admin,
        filter: &Filter,
    ) -> anyhow::Result<Option<DeadChangeReport>> {
        let (action, past) = (self.verb.name(), self.verb.past_tense());
        let matched = admin.count(filter).await.context("the events cannot be counted")?;
        let change = BulkChange { action, past, matched, exact: true, ..BulkChange::default() };
        if matched == 0 {
            return Ok(Some(BulkChange { dry_run: self.consent.dry_run, ..change }.into()));
        }
        match bulk_change::decide(&self.consent, &self.plan(matched, filter))? {
            Decision::No => Ok(None),
            Decision::Dry => {
                Ok(Some(BulkChange { dry_run: true, remaining: Some(matched), ..change }.into()))
            }
            Decision::Go => Ok(Some(self.go(admin, filter, change).await?)),
        }
    }

    fn plan(&self, matched: u64, filter: &Filter) -> String {
        let action = self.verb.name();
        let first = self.speed.canary.map(|n| format!(", the oldest {n} first")).unwrap_or_default();
        format!("{action} {}{first} ({filter})", events(matched))
    }

    async fn go(
        &self,
        admin: &dyn Admin,
        filter: &Filter,
        change: BulkChange,
    ) -> anyhow::Result<DeadChangeReport> {
        let (mut batch_rate, began) = (BatchRate::new(self.speed.rate, Stop::on_ctrl_c()), Instant::now());
        let bar = progress_bar(self.output.is_watched(), Some(change.matched), change.action);
        let mut done = DeadChangeReport::from(change);
        if let (DeadAction::Replay(replay), Some(events)) = (self.verb, self.speed.canary) {
            let canary = Canary { filter, replay, events, timeout: self.speed.canary_timeout };
            done.canary = Some(canary.send(admin, &mut batch_rate, &bar, &mut done.change).await?);
        }
        if done.change.stopped.is_none() {
            // A replayed event may die again immediately. Replaying it twice would starve the events behind it.
            let may_have_died_again =
                |changed: u64| changed > 0 && matches!(self.verb, DeadAction::Replay(_)) && self.knows_deaths;
            let some = async |limit, changed| match may_have_died_again(changed) {
                true => self.verb.some(admin, &bulk_change::dead_since(filter, began), limit).await,
                false => self.verb.some(admin, filter, limit).await,
            };
            bulk_change::in_batches(&mut done.change, &mut batch_rate, &bar, some).await?;
        }
        bar.finish_and_clear();
        done.change.remaining = Some(admin.count(filter).await.context("what is left cannot be counted")?);
        Ok(done)
    }

    /// A single event that is named on the command line needs no further consent.
    async fn change_named(&self, admin: &dyn Admin, ids: &[EventId]) -> anyhow::Result<Option<BulkChange>> {
        let (action, past) = (self.verb.name(), self.verb.past_tense());
        let (mut dead, mut unchanged) = (Vec::new(), Vec::new());
        for id in ids {
            let found = admin
                .count(&Filter::dead().with_id(id.clone()))
                .await
                .context("the events cannot be counted")?;
            if found > 0 { dead.push(id) } else { unchanged.push(id.clone()) }
        }
        let matched = dead.len() as u64;
        let mut done = BulkChange { action, past, matched, exact: true, unchanged, ..BulkChange::default() };
        let needs_consent = self.consent.dry_run || ids.len() > 1 && matched > 0;
        let plan = format!("{action} {}", events(matched));
        match if needs_consent { bulk_change::decide(&self.consent, &plan)? } else { Decision::Go } {
            Decision::No => return Ok(None),
            Decision::Dry => return Ok(Some(BulkChange { dry_run: true, ..done })),
            Decision::Go => {}
        }
        for id in dead {
            let changed =
                self.verb.one(admin, id).await.with_context(|| bulk_change::stopped(done.changed))?;
            if changed { done.changed += 1 } else { done.unchanged.push(id.clone()) }
        }
        Ok(Some(done))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use posthaste::admin::PageRequest;
    use posthaste::memory::RawRow;
    use posthaste::{Delivery, MemoryStore, Outbox, Outcome, Route, Routes, Status, handler};

    use super::*;
    use crate::args::{FilterArgs, SelectedIds};

    fn store(dead: usize) -> MemoryStore {
        let store = MemoryStore::new();
        for n in 0..dead {
            store.insert_raw(RawRow::default().with_id(format!("d-{n}")).with_status_code(3));
        }
        store.insert_raw(RawRow::default().with_id("new"));
        store
    }

    fn all() -> EventSelection {
        EventSelection { named: SelectedIds { ids: Vec::new(), all: true }, filter: FilterArgs::default() }
    }

    fn yes() -> ConsentArgs {
        ConsentArgs { yes: true, ..ConsentArgs::default() }
    }

    fn change(verb: DeadAction<'_>, selection: EventSelection, consent: ConsentArgs) -> DeadChange<'_> {
        DeadChange {
            verb,
            selection,
            speed: ReplaySpeed::default(),
            consent,
            knows_deaths: true,
            output: Output::Json,
        }
    }

    async fn run(
        store: &MemoryStore,
        verb: DeadAction<'_>,
        selection: EventSelection,
        consent: ConsentArgs,
    ) -> BulkChange {
        change(verb, selection, consent).run(store).await.unwrap().expect("it goes ahead").change
    }

    fn dead_left(store: &MemoryStore) -> usize {
        store.rows().iter().filter(|row| row.status == Status::Dead).count()
    }

    #[tokio::test]
    async fn all_dead_events_are_replayed_in_batches() {
        let store = store(1201);
        let done = run(&store, DeadAction::Replay(Replay::by("ann")), all(), yes()).await;
        assert_eq!((done.matched, done.changed, done.remaining), (1201, 1201, Some(0)));
        assert_eq!(dead_left(&store), 0);
        let noted = store.audit(&PageRequest::first(10)).await.unwrap().items;
        assert_eq!(noted.iter().map(|entry| entry.rows).collect::<Vec<_>>(), [201, 500, 500]);
    }

    /// The oldest go first: without `dead_since` the first event would be replayed five times.
    #[tokio::test(start_paused = true)]
    async fn event_that_dies_again_does_not_starve_the_others() {
        let store = store(5);
        let refuses = handler(async |_: Delivery| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Outcome::Dead("never".into())
        });
        let routes = Routes::new().add(Route::fallback().deliver_to(refuses));
        let outbox =
            Outbox::builder(store.clone(), routes).single_node().poll_interval(Duration::from_millis(10));
        let outbox = outbox.start().unwrap();
        let speed = ReplaySpeed { rate: NonZeroU32::new(10), ..ReplaySpeed::default() };
        let change = DeadChange { speed, ..change(DeadAction::Replay(Replay::by("ann")), all(), yes()) };
        change.run(&store).await.unwrap();
        outbox.idle().await.unwrap();
        let replayed = store.rows().into_iter().filter(|row| row.id.as_str().starts_with("d-"));
        let replayed: Vec<(Status, u32)> = replayed.map(|row| (row.status, row.replays)).collect();
        assert_eq!(replayed, [(Status::Dead, 1); 5]);
        outbox.shutdown().await;
    }
}
