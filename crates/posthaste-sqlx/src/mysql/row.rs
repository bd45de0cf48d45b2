//! Columns of a row on MySQL, and how they are read. The server enforces the types of columns.

use posthaste::Timestamp;
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use crate::row::{ReadColumns, ReadValues};

/// The columns of an event.
macro_rules! event_columns {
    () => {
        concat!(
            "o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id, o.topic, \
             o.content_type, o.schema_version, o.payload, o.payload_bytes, o.headers, o.attempts, \
             o.deferrals, o.lost_leases, o.replays, \
             o.progress, ",
            micros!("o.created_at"),
            " AS created_at, ",
            micros!("o.inserted_at"),
            " AS inserted_at"
        )
    };
}

/// The remaining columns of an event, for an operator who reads a whole row.
macro_rules! content_columns {
    () => {
        "o.topic, o.content_type, o.schema_version, o.payload, o.payload_bytes"
    };
}

/// The columns that an operator sees.
macro_rules! row_columns {
    () => {
        concat!(
            "o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id, o.headers, \
             COALESCE(LENGTH(o.payload), LENGTH(o.payload_bytes), 0) AS payload_size, o.status, o.attempts, \
             o.deferrals, o.lost_leases, o.replays, o.parked, o.progress, o.last_error, o.locked_by, ",
            micros!("o.available_at"),
            " AS available_at, ",
            micros!("o.created_at"),
            " AS created_at, ",
            micros!("o.inserted_at"),
            " AS inserted_at, ",
            micros!("o.done_at"),
            " AS done_at, ",
            micros!("o.locked_at"),
            " AS locked_at, ",
            micros!("o.lease_until"),
            " AS lease_until"
        )
    };
}

pub(super) use {content_columns, event_columns, row_columns};

impl ReadColumns for MySqlRow {
    fn text(&self, column: &str) -> Result<Option<&str>, &'static str> {
        self.try_get(column).map_err(|_| "text")
    }

    fn number(&self, column: &str) -> Result<Option<i64>, &'static str> {
        self.try_get(column).map_err(|_| "an integer")
    }

    /// The statements select times as microseconds.
    fn time(&self, column: &str) -> Result<Option<Timestamp>, &'static str> {
        Ok(self.number(column)?.map(Timestamp::from_micros))
    }

    fn payload(&self) -> Result<Option<&[u8]>, &'static str> {
        match self.text("payload")? {
            Some(text) => Ok(Some(text.as_bytes())),
            None => self.try_get("payload_bytes").map_err(|_| "bytes"),
        }
    }
}

impl ReadValues for MySqlRow {
    fn optional_int_at(&self, index: usize) -> sqlx::Result<Option<i64>> {
        self.try_get(index)
    }

    fn text_at(&self, index: usize) -> sqlx::Result<Option<String>> {
        self.try_get(index)
    }

    /// The statements select times as microseconds.
    fn time_at(&self, index: usize) -> sqlx::Result<Option<Timestamp>> {
        Ok(self.optional_int_at(index)?.map(Timestamp::from_micros))
    }
}
