//! Rows as they come back. PostgreSQL keeps every column to its type; what a foreign program can still
//! get wrong is left empty and named, and never spoils the rows beside it.

use std::collections::BTreeSet;
use std::fmt::Display;

use bytes::Bytes;
use posthaste::{
    Event, EventDetail, EventId, EventParts, EventRow, GLOBAL, Headers, Status, Timestamp, decode_headers,
};
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row as _, Type};

use super::value::Time;

/// What an event is made of.
macro_rules! event_columns {
    () => {
        "o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id, o.topic, \
         o.content_type, o.schema_version, o.payload, o.payload_bytes, o.headers, o.created_at, o.attempts, \
         o.replays, o.progress, o.inserted_at"
    };
}

/// What an operator sees of a row.
macro_rules! row_columns {
    () => {
        "o.seq, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.tenant_id, \
         coalesce(octet_length(o.payload), octet_length(o.payload_bytes), 0)::int8 AS payload_size, \
         o.headers, o.status, o.attempts, o.deferrals, o.lost_leases, o.replays, o.parked, o.progress, \
         o.available_at, o.created_at, o.inserted_at, o.done_at, o.last_error, o.locked_by, o.locked_at"
    };
}

pub(super) use {event_columns, row_columns};

/// Reads columns and remembers the first one that it could not read.
pub(super) struct Reader<'r> {
    row: &'r PgRow,
    defect: Option<String>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(row: &'r PgRow) -> Self {
        Self { row, defect: None }
    }

    pub(super) fn into_defect(self) -> Option<String> {
        self.defect
    }

    fn note(&mut self, defect: impl Display) {
        self.defect.get_or_insert_with(|| defect.to_string());
    }

    fn get<T>(&mut self, column: &'static str) -> Option<T>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        match self.row.try_get::<Option<T>, _>(column) {
            Ok(value) => value,
            Err(_) => {
                self.note(format_args!("{column} cannot be read"));
                None
            }
        }
    }

    fn text(&mut self, column: &'static str) -> Option<&'r str> {
        self.get(column)
    }

    pub(super) fn seq(&mut self) -> i64 {
        self.get("seq").unwrap_or_default()
    }

    /// A count, which is never below zero.
    pub(super) fn count(&mut self, column: &'static str) -> u32 {
        let count: i32 = self.get(column).unwrap_or(0);
        if count < 0 {
            self.note(format_args!("negative {column}: {count}"));
        }
        u32::try_from(count).unwrap_or(0)
    }

    pub(super) fn time(&mut self, column: &'static str) -> Option<Timestamp> {
        self.get::<Time>(column).map(|time| time.0)
    }

    /// The id, as far as it can be read.
    pub(super) fn id(&mut self) -> EventId {
        EventId::from(self.text("event_id").unwrap_or("?"))
    }

    pub(super) fn progress(&mut self) -> BTreeSet<String> {
        let names: Vec<Option<String>> = self.get("progress").unwrap_or_default();
        names.into_iter().flatten().collect()
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
        let text = self.text("payload").map(str::as_bytes);
        let Some(payload) = text.or_else(|| self.get("payload_bytes")) else {
            self.note("there is no payload");
            return Bytes::new();
        };
        Bytes::copy_from_slice(payload)
    }

    fn schema_version(&mut self) -> Option<u32> {
        let version: i64 = self.get("schema_version")?;
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
        let code: i16 = self.get("status").unwrap_or(-1);
        Status::from_code(code.into()).unwrap_or_else(|| {
            self.note(format_args!("unknown status code {code}"));
            Status::New
        })
    }
}

pub(super) fn view(row: &PgRow) -> EventRow {
    let mut reader = Reader::new(row);
    reader.headers();
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let mut view = EventRow {
        seq: reader.seq(),
        id: reader.id(),
        event_type: owned(reader.text("event_type")).unwrap_or_default(),
        aggregate_type: reader.text("aggregate_type").unwrap_or(GLOBAL).to_owned(),
        aggregate_id: owned(reader.text("aggregate_id")),
        tenant_id: owned(reader.text("tenant_id")),
        payload_bytes: reader.get::<i64>("payload_size").unwrap_or_default().unsigned_abs(),
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
pub(super) fn detail(row: &PgRow) -> EventDetail {
    let mut reader = Reader::new(row);
    let event = reader.event();
    let mut view = view(row);
    view.malformed = view.malformed.or(reader.into_defect());
    EventDetail { row: view, event }
}
