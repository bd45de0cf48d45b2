//! `posthaste dead replay` and `posthaste dead discard`: the same questions, another verb.

use std::process::ExitCode;

use anyhow::Context;
use posthaste::admin::{Admin, Filter, Replay};
use posthaste::{EventId, StoreError};

use crate::args::{Consent, DiscardArgs, ReplayArgs, Which};
use crate::commands::bulk::{self, Change, Decision};
use crate::connect;
use crate::escape;
use crate::failure::say;
use crate::output::{Output, events};
use crate::progress;

pub(super) async fn replay(args: ReplayArgs, output: Output) -> anyhow::Result<ExitCode> {
    let actor = args.consent.actor();
    let verb = Verb::Replay(Replay { actor: &actor, forget_progress: args.forget_progress });
    let work = async |admin: &dyn Admin| change(admin, verb, &args.which, &args.consent, output).await;
    print(connect::with_admin(&args.store, work).await?, output)
}

pub(super) async fn discard(args: DiscardArgs, output: Output) -> anyhow::Result<ExitCode> {
    let actor = args.consent.actor();
    let verb = Verb::Discard(&actor);
    let work = async |admin: &dyn Admin| change(admin, verb, &args.which, &args.consent, output).await;
    print(connect::with_admin(&args.store, work).await?, output)
}

/// None: the operator said no.
fn print(change: Option<Change>, output: Output) -> anyhow::Result<ExitCode> {
    let Some(change) = change else { return Ok(ExitCode::FAILURE) };
    for id in &change.unchanged {
        say(&format!("error: {} is not the id of a DEAD event", escape::one_line(id.as_str())));
    }
    output.print(&change)?;
    Ok(if change.unchanged.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Clone, Copy)]
enum Verb<'a> {
    Replay(Replay<'a>),
    Discard(&'a str),
}

impl Verb<'_> {
    /// As it is typed, and as it is said when it is over.
    fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Replay(_) => ("replay", "replayed"),
            Self::Discard(_) => ("discard", "discarded"),
        }
    }

    async fn one(&self, admin: &dyn Admin, id: &EventId) -> Result<bool, StoreError> {
        match self {
            Self::Replay(replay) => admin.replay(id, replay).await,
            Self::Discard(actor) => Ok(admin.discard(&only(id), 1, actor).await? > 0),
        }
    }

    async fn some(&self, admin: &dyn Admin, filter: &Filter, limit: usize) -> Result<u64, StoreError> {
        match self {
            Self::Replay(replay) => admin.replay_all(filter, limit, replay).await,
            Self::Discard(actor) => admin.discard(filter, limit, actor).await,
        }
    }
}

fn only(id: &EventId) -> Filter {
    Filter { id: Some(id.clone()), ..Filter::dead() }
}

async fn change(
    admin: &dyn Admin,
    verb: Verb<'_>,
    which: &Which,
    consent: &Consent,
    output: Output,
) -> anyhow::Result<Option<Change>> {
    match which.named.all {
        true => change_all(admin, verb, &which.filter.dead(), consent, output).await,
        false => change_named(admin, verb, &which.named.ids(), consent).await,
    }
}

async fn change_all(
    admin: &dyn Admin,
    verb: Verb<'_>,
    filter: &Filter,
    consent: &Consent,
    output: Output,
) -> anyhow::Result<Option<Change>> {
    let (action, past) = verb.words();
    let matched = admin.count(filter).await.context("the events cannot be counted")?;
    let mut done = Change { action, past, matched, exact: true, ..Change::default() };
    if matched == 0 {
        return Ok(Some(Change { dry_run: consent.dry_run, ..done }));
    }
    match bulk::decide(consent, &format!("{action} {} ({filter})", events(matched)))? {
        Decision::No => return Ok(None),
        Decision::Dry => return Ok(Some(Change { dry_run: true, remaining: Some(matched), ..done })),
        Decision::Go => {}
    }
    let bar = progress::bar(output, Some(matched), action);
    done.changed =
        bulk::in_batches(Some(matched), &bar, async |limit| verb.some(admin, filter, limit).await).await?;
    done.remaining = Some(admin.count(filter).await.context("what is left cannot be counted")?);
    Ok(Some(done))
}

/// One event that was named is agreed on already.
async fn change_named(
    admin: &dyn Admin,
    verb: Verb<'_>,
    ids: &[EventId],
    consent: &Consent,
) -> anyhow::Result<Option<Change>> {
    let (action, past) = verb.words();
    let (mut dead, mut unchanged) = (Vec::new(), Vec::new());
    for id in ids {
        let found = admin.count(&only(id)).await.context("the events cannot be counted")?;
        if found > 0 { dead.push(id) } else { unchanged.push(id.clone()) }
    }
    let matched = dead.len() as u64;
    let mut done = Change { action, past, matched, exact: true, unchanged, ..Change::default() };
    let asks = consent.dry_run || ids.len() > 1 && matched > 0;
    match if asks { bulk::decide(consent, &format!("{action} {}", events(matched)))? } else { Decision::Go } {
        Decision::No => return Ok(None),
        Decision::Dry => return Ok(Some(Change { dry_run: true, ..done })),
        Decision::Go => {}
    }
    for id in dead {
        let changed = verb.one(admin, id).await.with_context(|| bulk::stopped(done.changed))?;
        if changed { done.changed += 1 } else { done.unchanged.push(id.clone()) }
    }
    Ok(Some(done))
}

#[cfg(test)]
mod tests {
    use posthaste::admin::PageRequest;
    use posthaste::memory::RawRow;
    use posthaste::{MemoryStore, Status};

    use super::*;
    use crate::args::{FilterArgs, Named};
    use crate::output::Report;

    fn store(dead: usize) -> MemoryStore {
        let store = MemoryStore::new();
        for n in 0..dead {
            store.insert_raw(RawRow { id: format!("d-{n}").into(), status: 3, ..RawRow::default() });
        }
        store.insert_raw(RawRow { id: "new".into(), ..RawRow::default() });
        store
    }

    fn all() -> Which {
        Which { named: Named { ids: Vec::new(), all: true }, filter: FilterArgs::default() }
    }

    fn named(ids: &[&str]) -> Which {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Which { named: Named { ids, all: false }, filter: FilterArgs::default() }
    }

    fn yes() -> Consent {
        Consent { yes: true, ..Consent::default() }
    }

    fn dry() -> Consent {
        Consent { dry_run: true, ..Consent::default() }
    }

    async fn run(store: &MemoryStore, verb: Verb<'_>, which: Which, consent: Consent) -> Change {
        change(store, verb, &which, &consent, Output::Json).await.unwrap().expect("it goes ahead")
    }

    fn dead_left(store: &MemoryStore) -> usize {
        store.rows().iter().filter(|row| row.status == Status::Dead).count()
    }

    #[tokio::test]
    async fn all_dead_events_are_replayed_in_batches() {
        let store = store(1201);
        let done = run(&store, Verb::Replay(Replay::by("ann")), all(), yes()).await;
        assert_eq!((done.matched, done.changed, done.remaining), (1201, 1201, Some(0)));
        assert_eq!(dead_left(&store), 0);
        let noted = store.audit(&PageRequest::first(10)).await.unwrap().items;
        assert_eq!(noted.iter().map(|entry| entry.rows).collect::<Vec<_>>(), [201, 500, 500]);
    }

    #[tokio::test]
    async fn dry_run_changes_nothing() {
        let store = store(3);
        for which in [all(), named(&["d-1"]), named(&["d-1", "d-2"])] {
            let done = run(&store, Verb::Discard("ann"), which, dry()).await;
            assert!(done.dry_run && done.matched > 0 && done.changed == 0, "{done:?}");
            assert!(done.text().contains("would be discarded"), "{}", done.text());
        }
        assert_eq!(dead_left(&store), 3);
    }

    #[tokio::test]
    async fn named_events_that_are_not_dead_are_named_again() {
        let store = store(3);
        let done =
            run(&store, Verb::Discard("ann"), named(&["d-1", "new", "d-1", "nobody", "d-2"]), yes()).await;
        assert_eq!((done.matched, done.changed), (2, 2));
        assert_eq!(done.unchanged, ["new", "nobody"]);
        assert_eq!(dead_left(&store), 1);
    }

    #[tokio::test]
    async fn one_named_event_needs_no_question() {
        let store = store(1);
        let done = run(&store, Verb::Replay(Replay::by("ann")), named(&["d-0"]), Consent::default()).await;
        assert_eq!((done.changed, dead_left(&store)), (1, 0));
    }
}
