//! Columns of a row on SQLite, and how they are read. Any column can contain a value of any type, so every value is
//! checked.

use posthaste::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::row::{ReadColumns, ReadValues};

/// The columns of an event.
macro_rules! event_columns {
    () => {
        "seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type, \
         schema_version, payload, headers, created_at, attempts, deferrals, lost_leases, replays, progress, \
         inserted_at"
    };
}

/// The columns that an operator sees.
macro_rules! row_columns {
    () => {
        "seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, \
         octet_length(payload) AS payload_size, headers, status, attempts, deferrals, lost_leases, replays, \
         parked, progress, available_at, created_at, inserted_at, done_at, last_error, locked_by, locked_at, \
         lease_until"
    };
}

pub(super) use {event_columns, row_columns};

impl ReadColumns for SqliteRow {
    fn text(&self, column: &str) -> Result<Option<&str>, &'static str> {
        self.try_get(column).map_err(|_| "text")
    }

    fn number(&self, column: &str) -> Result<Option<i64>, &'static str> {
        self.try_get(column).map_err(|_| "an integer")
    }

    /// Some clients compute times in floating point.
    fn time(&self, column: &str) -> Result<Option<Timestamp>, &'static str> {
        let as_float = |_| self.try_get(column).map(|micros: Option<f64>| micros.map(|micros| micros as i64));
        let micros = self.number(column).or_else(as_float).map_err(|_| "a time in microseconds")?;
        Ok(micros.map(Timestamp::from_micros))
    }

    fn payload(&self) -> Result<Option<&[u8]>, &'static str> {
        self.try_get("payload").map_err(|_| "text or a blob")
    }
}

impl ReadValues for SqliteRow {
    fn optional_int_at(&self, index: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(index)
    }

    /// Replaces what is not UTF-8, so that one bad row does not hide the others.
    fn text_at(&self, index: usize) -> sqlx::Result<Option<String>> {
        let text: Option<&[u8]> = self.try_get_unchecked(index)?;
        Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    /// An unreadable time is `None`, so that the rest of the row is still shown.
    fn time_at(&self, index: usize) -> sqlx::Result<Option<Timestamp>> {
        Ok(self.try_get(index).ok().flatten().map(Timestamp::from_micros))
    }
}
