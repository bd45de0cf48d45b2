//! Crash check: compares the journal of runs that were killed with the database that they left.

use std::collections::HashSet;
use std::path::Path;

use posthaste::Status;
use posthaste::admin::{Admin, Filter, PageRequest};
use posthaste_sqlx::SqliteStore;
use serde::Serialize;
use sqlx::SqlitePool;

use super::crash_journal::JournalRecord;
use super::shop::connect_options;
use crate::output;

/// Findings of the check. `duplicates` are no error, because delivery is at least once.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct CheckFindings {
    /// Orders in the database.
    committed: u64,
    /// Distinct events that a destination accepted.
    delivered: u64,
    dead: u64,
    pending: u64,
    /// Deliveries of an event that had been accepted before.
    duplicates: u64,
    /// Events that were accepted but are still pending: the next run delivers each of them once more.
    unsettled: u64,
    /// Events of committed orders that are neither delivered, nor dead, nor pending.
    lost: Vec<String>,
    /// Events that were delivered although their order is not in the database or its commit was never attempted.
    invented: Vec<String>,
    /// Orders whose COMMIT succeeded but which are not in the database.
    vanished: Vec<String>,
}

impl CheckFindings {
    pub(super) fn are_good(&self) -> bool {
        self.lost.is_empty() && self.invented.is_empty() && self.vanished.is_empty()
    }
}

impl output::Report for CheckFindings {
    fn text(&self) -> String {
        format!("{self:#?}")
    }
}

/// Compares the journal in `folder` with the database in `file`.
pub(super) async fn check(file: &Path, folder: &Path) -> anyhow::Result<CheckFindings> {
    let record = JournalRecord::read(folder)?;
    let options = connect_options(file).create_if_missing(false);
    let store = SqliteStore::builder(&options).connect().await?;
    let pool = SqlitePool::connect_with(options).await?;
    let orders: Vec<String> = sqlx::query_scalar("SELECT event_id FROM orders").fetch_all(&pool).await?;
    let dead = read_ids(&store, &Filter::dead()).await?;
    let mut pending = read_ids(&store, &Filter::status(Status::New)).await?;
    pending.extend(read_ids(&store, &Filter::status(Status::Retry)).await?);
    let findings = compare(&record, &orders.into_iter().collect(), &dead, &pending);
    pool.close().await;
    store.close().await;
    Ok(findings)
}

fn compare(
    record: &JournalRecord,
    orders: &HashSet<String>,
    dead: &HashSet<String>,
    pending: &HashSet<String>,
) -> CheckFindings {
    let is_taken = |id: &&String| record.delivered.contains_key(*id);
    let is_real = |id: &&String| orders.contains(*id) && record.attempted.contains_key(*id);
    let is_safe = |id: &&String| is_taken(id) || dead.contains(*id) || pending.contains(*id);
    CheckFindings {
        committed: orders.len() as u64,
        delivered: record.delivered.len() as u64,
        dead: dead.len() as u64,
        pending: pending.len() as u64,
        duplicates: record.delivered.values().map(|times| times - 1).sum(),
        unsettled: pending.iter().filter(is_taken).count() as u64,
        lost: orders.iter().filter(|id| !is_safe(id)).cloned().collect(),
        invented: record.delivered.keys().filter(|id| !is_real(id)).cloned().collect(),
        vanished: record.committed.keys().filter(|id| !orders.contains(*id)).cloned().collect(),
    }
}

async fn read_ids(store: &SqliteStore, filter: &Filter) -> anyhow::Result<HashSet<String>> {
    let mut ids = HashSet::new();
    let mut page = PageRequest::first(PageRequest::MAX_LIMIT);
    loop {
        let found = store.list(filter, &page).await?;
        ids.extend(found.items.into_iter().map(|row| row.id.as_str().to_owned()));
        match found.next {
            Some(next) => page = PageRequest::after(next, PageRequest::MAX_LIMIT),
            None => return Ok(ids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> HashSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn record(committed: &str, delivered: &str) -> JournalRecord {
        let count = |text: &str| {
            let mut lines = std::collections::HashMap::new();
            text.split_whitespace().for_each(|id| *lines.entry(id.to_owned()).or_default() += 1);
            lines
        };
        JournalRecord {
            attempted: count(committed),
            committed: count(committed),
            delivered: count(delivered),
        }
    }

    #[test]
    fn undelivered_order_is_lost_unless_dead_or_pending() {
        let record = record("a b", "a");
        assert_eq!(compare(&record, &ids("a b"), &ids(""), &ids("")).lost, ["b"]);
        assert!(compare(&record, &ids("a b"), &ids("b"), &ids("")).are_good());
        assert!(compare(&record, &ids("a b"), &ids(""), &ids("b")).are_good());
    }

    #[test]
    fn delivery_without_an_order_is_invented() {
        let findings = compare(&record("a", "a b"), &ids("a"), &ids(""), &ids(""));
        assert_eq!(findings.invented, ["b"]);
        assert!(!findings.are_good());
    }

    #[test]
    fn committed_order_must_be_in_the_database() {
        assert_eq!(compare(&record("a b", "a"), &ids("a"), &ids(""), &ids("")).vanished, ["b"]);
    }

    #[test]
    fn second_delivery_is_counted_but_is_no_error() {
        let findings = compare(&record("a", "a a a"), &ids("a"), &ids(""), &ids(""));
        assert_eq!((findings.duplicates, findings.unsettled), (2, 0));
        assert!(findings.are_good());
    }

    #[test]
    fn event_that_was_accepted_and_is_pending_is_unsettled() {
        let findings = compare(&record("a b", "a"), &ids("a b"), &ids(""), &ids("a b"));
        assert_eq!(findings.unsettled, 1);
        assert!(findings.are_good());
    }
}
