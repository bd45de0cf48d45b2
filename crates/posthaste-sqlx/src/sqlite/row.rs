//! Rows as they come back. SQLite lets any column hold anything, so every column is read with doubt:
//! what cannot be read is left empty and named, and never spoils the rows beside it.

use std::collections::BTreeSet;
use std::fmt::Display;

use bytes::Bytes;
use posthaste::{
    Event, EventDetail, EventId, EventParts, EventRow, GLOBAL, Headers, Status, Timestamp, decode_headers,
};
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row as _, Sqlite, Type};

/// What an event is made of.
macro_rules! event_columns {
    () => {
        "seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type, \
         schema_version, payload, headers, created_at, attempts, replays, progress, inserted_at"
    };
}

/// What an operator sees of a row.
macro_rules! row_columns {
    () => {
        "seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, \
         octet_length(payload) AS payload_bytes, headers, status, attempts, deferrals, lost_leases, replays, \
         parked, progress, available_at, created_at, inserted_at, done_at, last_error, locked_by, locked_at"
    };
}

pub(super) use {event_columns, row_columns};

/// Reads columns and remembers the first one that it could not read.
pub(super) struct Reader<'r> {
    row: &'r SqliteRow,
    defect: Option<String>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(row: &'r SqliteRow) -> Self {
        Self { row, defect: None }
    }

    pub(super) fn into_defect(self) -> Option<String> {
        self.defect
    }

    fn note(&mut self, defect: impl Display) {
        self.defect.get_or_insert_with(|| defect.to_string());
    }

    fn get<T>(&mut self, column: &'static str, wanted: &str) -> Option<T>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
    {
        match self.row.try_get::<Option<T>, _>(column) {
            Ok(value) => value,
            Err(_) => {
                self.note(format_args!("{column} is not {wanted}"));
                None
            }
        }
    }

    pub(super) fn text(&mut self, column: &'static str) -> Option<&'r str> {
        self.get(column, "text")
    }

    pub(super) fn int(&mut self, column: &'static str) -> Option<i64> {
        self.get(column, "an integer")
    }

    /// A count, which is never below zero.
    pub(super) fn count(&mut self, column: &'static str) -> u32 {
        let count = self.int(column).unwrap_or(0);
        if count < 0 {
            self.note(format_args!("negative {column}: {count}"));
        }
        u32::try_from(count.max(0)).unwrap_or(u32::MAX)
    }

    /// A time. Some clients compute it in floating point.
    pub(super) fn time(&mut self, column: &'static str) -> Option<Timestamp> {
        let micros = self.row.try_get::<Option<i64>, _>(column).or_else(|_| {
            let micros = self.row.try_get::<Option<f64>, _>(column)?;
            Ok::<_, sqlx::Error>(micros.map(|micros| micros as i64))
        });
        match micros {
            Ok(micros) => micros.map(Timestamp::from_micros),
            Err(_) => {
                self.note(format_args!("{column} is not a time in microseconds"));
                None
            }
        }
    }

    /// The id, as far as it can be read.
    pub(super) fn id(&mut self) -> EventId {
        EventId::from(self.text("event_id").unwrap_or("?"))
    }

    pub(super) fn progress(&mut self) -> BTreeSet<String> {
        let Some(text) = self.text("progress") else { return BTreeSet::new() };
        serde_json::from_str(text).unwrap_or_else(|_| {
            self.note("progress is not a JSON list of text");
            BTreeSet::new()
        })
    }

    fn headers(&mut self) -> Headers {
        match decode_headers(self.text("headers")) {
            Ok(headers) => headers,
            Err(defect) => {
                self.note(defect);
                Headers::new()
            }
        }
    }

    fn payload(&mut self) -> Bytes {
        Bytes::copy_from_slice(self.get::<&[u8]>("payload", "text or a blob").unwrap_or_default())
    }

    fn schema_version(&mut self) -> Option<u32> {
        let version = self.int("schema_version")?;
        let known = u32::try_from(version).ok();
        if known.is_none() {
            self.note("schema_version is out of range");
        }
        known
    }

    pub(super) fn event(&mut self) -> Event {
        Event::from_parts(EventParts {
            id: self.id(),
            event_type: self.text("event_type").unwrap_or_default().into(),
            aggregate_type: self.text("aggregate_type").unwrap_or(GLOBAL).into(),
            aggregate_id: self.text("aggregate_id").map(Into::into),
            tenant_id: self.text("tenant_id").map(Into::into),
            topic: self.text("topic").map(Into::into),
            content_type: self.text("content_type").map(Into::into),
            schema_version: self.schema_version(),
            headers: self.headers(),
            payload: self.payload(),
            occurred_at: self.time("created_at").unwrap_or_default(),
            available_at: None,
        })
    }

    fn status(&mut self) -> Status {
        let code = self.int("status").unwrap_or(-1);
        Status::from_code(code).unwrap_or_else(|| {
            self.note(format_args!("unknown status code {code}"));
            Status::New
        })
    }
}

pub(super) fn view(row: &SqliteRow) -> EventRow {
    let mut reader = Reader::new(row);
    reader.headers();
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let mut view = EventRow {
        seq: reader.int("seq").unwrap_or_default(),
        id: reader.id(),
        event_type: owned(reader.text("event_type")).unwrap_or_default(),
        aggregate_type: reader.text("aggregate_type").unwrap_or(GLOBAL).to_owned(),
        aggregate_id: owned(reader.text("aggregate_id")),
        tenant_id: owned(reader.text("tenant_id")),
        payload_bytes: reader.int("payload_bytes").and_then(|size| size.try_into().ok()).unwrap_or_default(),
        status: reader.status(),
        attempts: reader.count("attempts"),
        deferrals: reader.count("deferrals"),
        lost_leases: reader.count("lost_leases"),
        replays: reader.count("replays"),
        parked: owned(reader.text("parked")),
        progress: reader.progress(),
        available_at: reader.time("available_at").unwrap_or_default(),
        created_at: reader.time("created_at").unwrap_or_default(),
        inserted_at: reader.time("inserted_at").unwrap_or_default(),
        done_at: reader.time("done_at"),
        last_error: owned(reader.text("last_error")),
        locked_by: owned(reader.text("locked_by")),
        locked_at: reader.time("locked_at"),
        malformed: None,
    };
    view.malformed = reader.into_defect();
    view
}

/// A row that was read with the columns of both lists.
pub(super) fn detail(row: &SqliteRow) -> EventDetail {
    let mut reader = Reader::new(row);
    let event = reader.event();
    let mut view = view(row);
    view.malformed = view.malformed.or(reader.into_defect());
    EventDetail { row: view, event }
}
