//! The oldest rows of a foreign table, for the engine and for operators: the age of the oldest one, and purges. Each
//! reads a bounded number of rows, as far as the indexes of the table allow.

use std::time::Duration;

use posthaste::store::{Purge, Purgeable};
use posthaste::{StoreError, Timestamp};

use super::filter::Conditions;
use super::foreign_table::ForeignTable;
use super::server::Caller;
use super::session::QueryRow;
use super::{Field, State};

/// A number from a row; 0 if the column does not contain one.
pub(super) fn number(row: &QueryRow, column: &str) -> u64 {
    row.number(column).ok().flatten().unwrap_or_default().unsigned_abs()
}

pub(super) fn text(row: &QueryRow, column: &str) -> Option<String> {
    row.text(column).ok().flatten().map(str::to_owned)
}

pub(super) fn time(row: &QueryRow, column: &str) -> Option<Timestamp> {
    row.time(column).ok().flatten()
}

/// How long before `store_now` the time in this column was.
pub(super) fn age(row: &QueryRow, column: &str) -> Option<Duration> {
    Some(time(row, "store_now")?.since(time(row, column)?))
}

impl ForeignTable {
    pub(super) async fn oldest(&self, caller: Caller) -> Result<Option<Duration>, StoreError> {
        let resolved = self.resolved();
        if resolved.column(Field::CreatedAt).is_none() {
            return Ok(None);
        }
        let (now, created_at) = (resolved.dialect.now, resolved.time(Field::CreatedAt));
        let columns = format!("{now} AS store_now, {created_at} AS created_at");
        let text = resolved.oldest_first(&columns, &resolved.is(State::Pending), "LIMIT 1");
        let rows = self.query(caller, text, Vec::new()).await?;
        Ok(rows.first().and_then(|row| age(&**row, "created_at")))
    }

    pub(super) async fn purge(&self, caller: Caller, purge: &Purge) -> Result<u64, StoreError> {
        let resolved = self.resolved();
        let state = match purge.what {
            Purgeable::Done => State::Sent,
            Purgeable::Dead => State::Failed,
            Purgeable::Archived => State::Archived,
            Purgeable::Any => return Err(resolved.unsupported("purge rows of any status")),
        };
        let archive = purge.archive && state != State::Archived;
        if archive && resolved.layout.value_of(State::Archived).is_none() {
            return Err(resolved.unsupported("archive: its layout has no status for that"));
        }
        let mut conditions = Conditions::default().and(resolved.is(state));
        conditions.older_than(resolved, purge.older_than);
        // An archived row keeps its error.
        let error = resolved.bare(Field::Error).map(|(column, _)| column).unwrap_or_default();
        let set = archive.then(|| resolved.set(State::Archived, &error));
        self.change_oldest(caller, conditions, state, purge.limit, set.as_deref()).await
    }

    /// Sets columns of the oldest matching rows in a state, or deletes these rows.
    pub(super) async fn change_oldest(
        &self,
        caller: Caller,
        conditions: Conditions,
        state: State,
        limit: usize,
        set: Option<&str>,
    ) -> Result<u64, StoreError> {
        let resolved = self.resolved();
        let keys = resolved.key().into_iter().enumerate();
        let named: Vec<String> = keys.map(|(n, (column, _))| format!("{column} AS k{n}")).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let picked = resolved.oldest_first(&named.join(", "), &conditions.text(), &format!("LIMIT {limit}"));
        self.change(caller, (resolved.dialect.change)(resolved, state, set, &picked), conditions.values).await
    }
}
