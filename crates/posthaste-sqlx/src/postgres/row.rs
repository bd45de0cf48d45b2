//! Columns of a row on PostgreSQL, and how they are read. PostgreSQL enforces the types of columns.

use std::collections::BTreeSet;

use posthaste::Timestamp;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::value::Time;
use crate::row::{ReadColumns, ReadValues};

/// The columns of an event.
macro_rules! event_columns {
    () => {
        "o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id, o.topic, \
         o.content_type, o.schema_version, o.payload, o.payload_bytes, o.headers, o.created_at, o.attempts, \
         o.deferrals, o.replays, o.progress, o.inserted_at"
    };
}

/// The columns that an operator sees.
macro_rules! row_columns {
    () => {
        "o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id, \
         coalesce(octet_length(o.payload), octet_length(o.payload_bytes), 0)::int8 AS payload_size, \
         o.headers, o.status, o.attempts, o.deferrals, o.lost_leases, o.replays, o.parked, o.progress, \
         o.available_at, o.created_at, o.inserted_at, o.done_at, o.last_error, o.locked_by, o.locked_at, o.lease_until"
    };
}

pub(super) use {event_columns, row_columns};

impl ReadColumns for PgRow {
    fn text(&self, column: &str) -> Result<Option<&str>, &'static str> {
        self.try_get(column).map_err(|_| "text")
    }

    fn number(&self, column: &str) -> Result<Option<i64>, &'static str> {
        self.try_get(column).map_err(|_| "a bigint")
    }

    fn count(&self, column: &str) -> Result<Option<i64>, &'static str> {
        self.try_get::<Option<i32>, _>(column).map(|count| count.map(i64::from)).map_err(|_| "an integer")
    }

    fn status(&self) -> Result<Option<i64>, &'static str> {
        self.try_get::<Option<i16>, _>("status").map(|code| code.map(i64::from)).map_err(|_| "a smallint")
    }

    fn time(&self, column: &str) -> Result<Option<Timestamp>, &'static str> {
        self.try_get::<Option<Time>, _>(column)
            .map(|time| time.map(|time| time.0))
            .map_err(|_| "a timestamptz")
    }

    fn progress(&self) -> Result<BTreeSet<String>, &'static str> {
        let names: Option<Vec<Option<String>>> = self.try_get("progress").map_err(|_| "a list of text")?;
        Ok(names.into_iter().flatten().flatten().collect())
    }

    fn payload(&self) -> Result<Option<&[u8]>, &'static str> {
        let bytes: Option<&[u8]> = self.try_get("payload_bytes").map_err(|_| "bytes")?;
        match (self.text("payload")?, bytes) {
            (Some(_), Some(_)) => Err("alone: payload_bytes is set, too"),
            (text, bytes) => Ok(text.map(str::as_bytes).or(bytes)),
        }
    }
}

impl ReadValues for PgRow {
    fn optional_int_at(&self, index: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(index)
    }

    fn text_at(&self, index: usize) -> sqlx::Result<Option<String>> {
        self.try_get(index)
    }

    fn time_at(&self, index: usize) -> sqlx::Result<Option<Timestamp>> {
        Ok(self.try_get::<Option<Time>, _>(index)?.map(|time| time.0))
    }
}
