//! The table: rows, archive and audit entries, always consistent with the indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::index::Index;
use super::row::MemoryRow;
use crate::admin::AuditEntry;
use crate::event::EventId;
use crate::row::Status;
use crate::store::Lease;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: BTreeMap<i64, MemoryRow>,
    ids: HashMap<EventId, i64>,
    pub(super) index: Index,
    pub(super) archive: BTreeMap<i64, MemoryRow>,
    archive_ids: HashMap<EventId, i64>,
    pub(super) paused: BTreeSet<String>,
    pub(super) audit: VecDeque<AuditEntry>,
    last_seq: i64,
    last_audit: i64,
}

impl Table {
    /// The most audit entries. Beyond that the oldest are removed.
    pub(super) const MAX_AUDIT_ENTRIES: usize = 10_000;

    /// The next insertion number. The INSERT takes it, not the commit, so a late commit appears behind rows that were
    /// read already, as in every real database.
    pub(super) fn take_seq(&mut self) -> i64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Loses the end of the table. Its numbers are assigned again.
    pub(super) fn lose_from(&mut self, seq: i64) {
        let lost: Vec<i64> = self.rows.range(seq..).map(|(seq, _)| *seq).collect();
        lost.into_iter().for_each(|seq| self.remove(seq, false));
        self.last_seq = self.last_seq.min(seq - 1);
    }

    pub(super) fn contains(&self, id: &EventId) -> bool {
        self.ids.contains_key(id)
    }

    /// Adds a committed row. Returns `false` and changes nothing if its id exists already.
    pub(super) fn add(&mut self, row: MemoryRow) -> bool {
        let id = row.event.id();
        if self.contains(id) {
            return false;
        }
        self.ids.insert(id.clone(), row.seq);
        self.index.add(row.seq, &row.index_position());
        self.rows.insert(row.seq, row);
        true
    }

    /// The row of this id; the archive is searched last.
    pub(super) fn find(&self, id: &EventId) -> Option<&MemoryRow> {
        let live = self.ids.get(id).and_then(|seq| self.rows.get(seq));
        live.or_else(|| self.archive_ids.get(id).and_then(|seq| self.archive.get(seq)))
    }

    /// The insertion number of this id, without the archive.
    pub(super) fn seq_of(&self, id: &EventId) -> Option<i64> {
        self.ids.get(id).copied()
    }

    /// Changes a row if it exists.
    pub(super) fn change<R>(&mut self, seq: i64, change: impl FnOnce(&mut MemoryRow) -> R) -> Option<R> {
        self.update(seq, |row| Some(change(row)))
    }

    /// Changes a row if it exists. `change` returns whether it changed anything.
    pub(super) fn update<R>(
        &mut self,
        seq: i64,
        change: impl FnOnce(&mut MemoryRow) -> Option<R>,
    ) -> Option<R> {
        let row = self.rows.get_mut(&seq)?;
        let from = row.index_position();
        let result = change(row)?;
        row.writes += 1;
        self.index.shift(seq, &from, &row.index_position());
        Some(result)
    }

    /// The same for the row that a lease identifies. A row that was deleted and written again under the same id is
    /// another row.
    pub(super) fn update_leased<R>(
        &mut self,
        lease: &Lease,
        change: impl FnOnce(&mut MemoryRow) -> Option<R>,
    ) -> Option<R> {
        let seq = if lease.seq == 0 { self.seq_of(&lease.id)? } else { lease.seq };
        self.update(seq, |row| if *row.event.id() == lease.id { change(row) } else { None })
    }

    /// Deletes a row, or moves it to the archive.
    pub(super) fn remove(&mut self, seq: i64, archive: bool) {
        let Some(mut row) = self.rows.remove(&seq) else { return };
        self.ids.remove(row.event.id());
        self.index.remove(seq, &row.index_position());
        if archive {
            row.status = Status::Archived.code().into();
            row.hold = None;
            row.parked = None;
            row.writes += 1;
            self.archive_ids.insert(row.event.id().clone(), seq);
            self.archive.insert(seq, row);
        }
    }

    /// Deletes archived rows that ended before this time. Returns how many.
    pub(super) fn forget_archived(&mut self, before: Timestamp, limit: usize) -> u64 {
        let is_old = |row: &&MemoryRow| row.done_at.unwrap_or(row.inserted_at) <= before;
        let old: Vec<i64> = self.archive.values().filter(is_old).take(limit).map(|row| row.seq).collect();
        for seq in &old {
            if let Some(row) = self.archive.remove(seq) {
                self.archive_ids.remove(row.event.id());
            }
        }
        old.len() as u64
    }

    /// Records the action of an operator, unless it changed nothing.
    pub(super) fn note(&mut self, at: Timestamp, actor: &str, action: &str, target: String, rows: u64) {
        if rows == 0 {
            return;
        }
        if self.audit.len() == Self::MAX_AUDIT_ENTRIES {
            self.audit.pop_front();
        }
        self.last_audit += 1;
        self.audit.push_back(AuditEntry::new(
            self.last_audit,
            at,
            actor.to_owned(),
            action.to_owned(),
            target,
            rows,
        ));
    }
}
