//! `posthaste purge`: deletes or archives old DONE, DEAD or archived events.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use posthaste::admin::{Admin, Filter, PageRequest};
use posthaste::store::{Purge, Purgeable};
use posthaste::{EventRow, Status, StoreError, Timestamp};
use posthaste_measurements::progress_bar;

use super::shared::batch_rate::{BatchRate, MAX_BATCH_EVENTS};
use super::shared::bulk_change::{self, BulkChange, Decision};
use crate::args::ConsentArgs;
use crate::connect;
use crate::output::{Output, events};
use crate::stop::Stop;
use crate::store_args::StoreArgs;

/// Events that are read to count the old ones among them. A store counts by status, not by age; if there are more, the
/// reported count is "at least".
const MAX_SCANNED_EVENTS: usize = 100_000;

/// Delete old DONE, DEAD or archived events, or move them to the archive
///
/// JSON: the same as for `dead replay`, with "action": "purge"; "exact" is false if there are too many events to count
/// them all
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  posthaste purge --done --older-than 7d --dry-run
  posthaste purge --dead --older-than 90d --archive --yes
  posthaste purge --archived --older-than 365d")]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    what: PurgeStatusArgs,

    /// Events that have been DONE or DEAD at least this long, such as 7d, 12h or '1month 3days'; with --archived and
    /// without --layout, PostgreSQL, MySQL and MariaDB count from archiving
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    older_than: Duration,

    /// Move them to the archive instead of deleting them
    #[arg(long)]
    archive: bool,

    #[command(flatten)]
    consent: ConsentArgs,

    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PurgeStatusArgs {
    /// Events that were delivered
    #[arg(long)]
    done: bool,

    /// Events whose delivery was given up
    #[arg(long)]
    dead: bool,

    /// Events in the archive; PostgreSQL drops whole days of it
    #[arg(long, conflicts_with = "archive")]
    archived: bool,
}

pub(crate) async fn run(args: PurgeArgs, output: Output) -> anyhow::Result<ExitCode> {
    let what = match &args.what {
        PurgeStatusArgs { done: true, .. } => Purgeable::Done,
        PurgeStatusArgs { archived: true, .. } => Purgeable::Archived,
        PurgeStatusArgs { .. } => Purgeable::Dead,
    };
    let purge = Purge::new(what, args.older_than, MAX_BATCH_EVENTS).with_archive(args.archive);
    let work = async |admin: &dyn Admin| change(admin, &purge, &args.consent, output).await;
    let Some(change) = connect::with_admin(&args.store.spec()?, work).await? else {
        return Ok(ExitCode::FAILURE);
    };
    output.print(&change)?;
    Ok(change.exit_code())
}

/// Returns `None` if the user declined.
async fn change(
    admin: &dyn Admin,
    purge: &Purge,
    consent: &ConsentArgs,
    output: Output,
) -> anyhow::Result<Option<BulkChange>> {
    let counted =
        count_old(admin, purge, MAX_SCANNED_EVENTS).await.context("the events cannot be counted")?;
    let past = if purge.archive { "moved to the archive" } else { "deleted" };
    let OldEventCount { old: matched, exact } = counted;
    let mut done = BulkChange { action: "purge", past, matched, exact, ..BulkChange::default() };
    if matched == 0 && exact {
        return Ok(Some(BulkChange { dry_run: consent.dry_run, ..done }));
    }
    match bulk_change::decide(consent, &plan(purge, &counted))? {
        Decision::No => return Ok(None),
        Decision::Dry => return Ok(Some(BulkChange { dry_run: true, ..done })),
        Decision::Go => {}
    }
    let agreed = exact.then_some(matched);
    let actor = consent.actor();
    let bar = progress_bar(output.is_watched(), agreed, "purge");
    let mut batch_rate = BatchRate::new(None, Stop::on_ctrl_c());
    bulk_change::in_batches(&mut done, &mut batch_rate, &bar, async |limit, _| {
        admin.purge(&purge.clone().with_limit(limit), &actor).await
    })
    .await?;
    Ok(Some(done))
}

fn plan(purge: &Purge, counted: &OldEventCount) -> String {
    let verb = if purge.archive { "move to the archive" } else { "delete" };
    let at_least = if counted.exact { "" } else { "at least " };
    format!("{verb} {at_least}{} ({purge})", events(counted.old))
}

/// How many events a purge would affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OldEventCount {
    old: u64,
    exact: bool,
}

async fn count_old(
    admin: &dyn Admin,
    purge: &Purge,
    max_scanned: usize,
) -> Result<OldEventCount, StoreError> {
    let filter = match purge.what {
        Purgeable::Done => Filter::status(Status::Done),
        Purgeable::Dead => Filter::status(Status::Dead),
        Purgeable::Archived => Filter::status(Status::Archived),
        Purgeable::Any => Filter::default(),
    };
    let now = purge.now.unwrap_or_else(Timestamp::now);
    let mut page = PageRequest::first(PageRequest::MAX_LIMIT);
    let (mut old, mut scanned) = (0, 0);
    loop {
        let found = admin.list(&filter, &page).await?;
        old += found.items.iter().filter(|row| is_old(row, now, purge.older_than)).count() as u64;
        scanned += found.items.len();
        page.after = found.next;
        if page.after.is_none() || scanned >= max_scanned {
            return Ok(OldEventCount { old, exact: page.after.is_none() });
        }
    }
}

/// The age rule of [`Purgeable`], by `done_at` also for archived rows. PostgreSQL, MySQL and MariaDB count the age of
/// an archived row from archiving, which a listed row does not show. No row is archived before it ends, so the count
/// is never too low.
fn is_old(row: &EventRow, now: Timestamp, older_than: Duration) -> bool {
    row.done_at.unwrap_or(row.inserted_at) <= now - older_than
}

#[cfg(test)]
mod tests {
    use posthaste::MemoryStore;
    use posthaste::memory::RawRow;

    use super::*;
    use crate::output::Report;

    const ONE_DAY: Duration = Duration::from_secs(86_400);

    /// A store with DONE events that are 0, 1, 2, … days old, and a DEAD one as old as the oldest.
    fn store(done: u32) -> MemoryStore {
        let store = MemoryStore::new();
        let now = store.now();
        let row = |status, age| {
            let done_at = now - age;
            RawRow::default().with_status_code(status).with_done_at(done_at).with_inserted_at(done_at)
        };
        for n in 0..done {
            store.insert_raw(row(1, n * ONE_DAY));
        }
        store.insert_raw(row(3, done * ONE_DAY));
        store
    }

    fn done_older_than(older_than: Duration) -> Purge {
        Purge::new(Purgeable::Done, older_than, MAX_BATCH_EVENTS)
    }

    async fn run(store: &MemoryStore, purge: &Purge, consent: ConsentArgs) -> BulkChange {
        change(store, purge, &consent, Output::Json).await.unwrap().expect("it goes ahead")
    }

    #[tokio::test]
    async fn archived_events_are_deleted() {
        let store = store(10);
        let archive = done_older_than(7 * ONE_DAY).with_archive(true);
        run(&store, &archive, ConsentArgs { yes: true, ..ConsentArgs::default() }).await;
        let purge = Purge::new(Purgeable::Archived, 8 * ONE_DAY, MAX_BATCH_EVENTS);
        let done = run(&store, &purge, ConsentArgs { yes: true, ..ConsentArgs::default() }).await;
        assert_eq!((done.matched, done.changed, done.text().as_str()), (2, 2, "2 events deleted"));
        assert_eq!(store.stats().await.unwrap().archived, 1);
    }

    #[tokio::test]
    async fn long_tables_are_counted_in_part() {
        let store = store(2500);
        let counted = count_old(&store, &done_older_than(Duration::ZERO), 2000).await.unwrap();
        assert_eq!(counted, OldEventCount { old: 2000, exact: false });
        assert_eq!(
            plan(&done_older_than(ONE_DAY), &counted),
            "delete at least 2000 events (DONE older than 1day)"
        );
    }
}
