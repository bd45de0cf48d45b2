//! Findings about the rows of the memory store.

use super::row::MemoryRow;
use super::table::Table;
use crate::admin::{AuditEntry, LostLeases, ParkedRoute, PausedRoute, RowObservations};
use crate::time::Timestamp;

pub(super) fn read(table: &Table, now: Timestamp) -> RowObservations {
    let (mut unreadable, mut lost_leases) = (0, LostLeases::default());
    for row in rows(table, table.index.pending.iter()).take(RowObservations::MAX_OLDEST_ROWS) {
        unreadable += u64::from(row.defect().is_some());
        lost_leases.add(row.event.id().as_str(), row.lost_leases);
    }
    let audit: Vec<AuditEntry> = table.audit.iter().rev().cloned().collect();
    let newest = table.rows.values().rev().take(RowObservations::MAX_NEWEST_ROWS);
    RowObservations {
        now,
        unreadable,
        lost_leases,
        parked: parked(table),
        paused: PausedRoute::from_audit(&table.paused, &audit),
        written: newest.map(|row| (row.event.occurred_at(), row.inserted_at)).collect(),
    }
}

fn parked(table: &Table) -> Vec<ParkedRoute> {
    let parked = |(route, seqs): (&std::sync::Arc<str>, &std::collections::BTreeSet<i64>)| {
        let (route, waiting) = (route.to_string(), seqs.len() as u64);
        let mut parked = ParkedRoute { route, waiting, ..ParkedRoute::default() };
        rows(table, seqs.iter())
            .take(RowObservations::MAX_OLDEST_ROWS)
            .for_each(|row| parked.see(row.inserted_at, row.last_error.as_deref()));
        parked
    };
    table.index.parked.iter().map(parked).collect()
}

fn rows<'t>(table: &'t Table, seqs: impl Iterator<Item = &'t i64>) -> impl Iterator<Item = &'t MemoryRow> {
    seqs.filter_map(|seq| table.rows.get(seq))
}
