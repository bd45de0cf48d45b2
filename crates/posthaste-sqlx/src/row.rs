//! Reading of rows, for all databases. A value that cannot be read is left empty and reported with its column, and does
//! not affect other rows.

use std::collections::BTreeSet;
use std::fmt::Display;

use bytes::Bytes;
use posthaste::store::{Claim, Lease, Leased, Malformed};
use posthaste::{
    Event, EventDetail, EventId, EventParts, EventRow, GLOBAL, Headers, Status, Timestamp, decode_headers,
};

/// Reads columns of an outbox row by name; `None` for NULL. The error is the type that the column should have had.
pub(crate) trait ReadColumns {
    fn text(&self, column: &str) -> Result<Option<&str>, &'static str>;

    /// A 64-bit integer, such as `seq`.
    fn number(&self, column: &str) -> Result<Option<i64>, &'static str>;

    /// A count. Its column may have a smaller integer type.
    fn count(&self, column: &str) -> Result<Option<i64>, &'static str> {
        self.number(column)
    }

    fn status(&self) -> Result<Option<i64>, &'static str> {
        self.number("status")
    }

    fn time(&self, column: &str) -> Result<Option<Timestamp>, &'static str>;

    /// The destinations that have received the event. Stored as a JSON list, in which a name may occur more than once.
    fn progress(&self) -> Result<BTreeSet<String>, &'static str> {
        let Some(names) = self.text("progress")? else { return Ok(BTreeSet::new()) };
        serde_json::from_str(names).map_err(|_| "a JSON list of text")
    }

    fn payload(&self) -> Result<Option<&[u8]>, &'static str>;
}

/// Reads values by position, from rows whose columns are expressions of this crate.
pub(crate) trait ReadValues {
    fn optional_int_at(&self, index: usize) -> sqlx::Result<Option<i64>>;

    fn text_at(&self, index: usize) -> sqlx::Result<Option<String>>;

    fn time_at(&self, index: usize) -> sqlx::Result<Option<Timestamp>>;

    fn int_at(&self, index: usize) -> sqlx::Result<i64> {
        self.optional_int_at(index)?.ok_or_else(|| sqlx::Error::Decode("a number is NULL".into()))
    }

    /// A count, which is never negative.
    fn count_at(&self, index: usize) -> sqlx::Result<u64> {
        self.int_at(index).map(i64::unsigned_abs)
    }
}

/// The id of a row whose id is not text.
pub(crate) const UNREADABLE_ID: &str = "?";

/// Reads columns and remembers the first one that it could not read.
pub(crate) struct RowReader<'r, R: ?Sized> {
    row: &'r R,
    defect: Option<String>,
}

impl<'r, R: ReadColumns + ?Sized> RowReader<'r, R> {
    pub(crate) fn new(row: &'r R) -> Self {
        Self { row, defect: None }
    }

    fn note(&mut self, defect: impl Display) {
        self.defect.get_or_insert_with(|| defect.to_string());
    }

    /// Returns the value, or remembers the type that it should have had.
    fn read<T>(&mut self, column: &str, value: Result<Option<T>, &'static str>) -> Option<T> {
        value.unwrap_or_else(|wanted| {
            self.note(format_args!("{column} is not {wanted}"));
            None
        })
    }

    pub(crate) fn text(&mut self, column: &str) -> Option<&'r str> {
        self.read(column, self.row.text(column))
    }

    pub(crate) fn number(&mut self, column: &str) -> Option<i64> {
        self.read(column, self.row.number(column))
    }

    pub(crate) fn seq(&mut self) -> i64 {
        self.number("seq").unwrap_or_default()
    }

    /// A count. A negative one is a defect of the row.
    pub(crate) fn count(&mut self, column: &str) -> u32 {
        let count = self.read(column, self.row.count(column)).unwrap_or(0);
        if count < 0 {
            self.note(format_args!("negative {column}: {count}"));
        }
        u32::try_from(count.max(0)).unwrap_or(u32::MAX)
    }

    pub(crate) fn time(&mut self, column: &str) -> Option<Timestamp> {
        self.read(column, self.row.time(column))
    }

    /// The id, as far as it can be read.
    pub(crate) fn id(&mut self) -> EventId {
        let id = self.text("event_id").unwrap_or(UNREADABLE_ID);
        if id.is_empty() {
            self.note("event_id is empty");
        }
        EventId::from(id)
    }

    fn event_type(&mut self) -> &'r str {
        let event_type = self.text("event_type").unwrap_or_default();
        if event_type.is_empty() {
            self.note("event_type is empty");
        }
        event_type
    }

    fn progress(&mut self) -> BTreeSet<String> {
        self.read("progress", self.row.progress().map(Some)).unwrap_or_default()
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
        match self.row.payload() {
            Ok(Some(payload)) => Bytes::copy_from_slice(payload),
            Ok(None) => {
                self.note("there is no payload");
                Bytes::new()
            }
            Err(wanted) => {
                self.note(format_args!("payload is not {wanted}"));
                Bytes::new()
            }
        }
    }

    fn schema_version(&mut self) -> Option<u32> {
        let version = self.number("schema_version")?;
        let known = u32::try_from(version).ok();
        if known.is_none() {
            self.note("schema_version is out of range");
        }
        known
    }

    fn status(&mut self) -> Status {
        let code = self.read("status", self.row.status()).unwrap_or(-1);
        Status::from_code(code).unwrap_or_else(|| {
            self.note(format_args!("unknown status code {code}"));
            Status::New
        })
    }

    fn event(&mut self) -> Event {
        Event::from_parts(EventParts {
            id: self.id(),
            event_type: self.event_type().into(),
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

    /// A row that was claimed when the clock of the store showed `now`.
    pub(crate) fn leased(mut self, claim: &Claim<'_>, now: Timestamp) -> Result<Leased, Malformed> {
        let event = self.event();
        let lease = Lease::new(event.id().clone(), self.seq(), claim.token);
        let mut leased = Leased::new(lease, event);
        leased.attempts = self.count("attempts");
        leased.deferrals = self.count("deferrals");
        leased.lost_leases = self.count("lost_leases");
        leased.replays = self.count("replays");
        leased.age = now.since(self.time("inserted_at").unwrap_or(now));
        leased.progress = self.progress();
        match self.defect {
            None => Ok(leased),
            Some(reason) => Err(Malformed::new(leased.lease, reason)),
        }
    }
}

/// The row as an operator sees it.
pub(crate) fn view<R: ReadColumns + ?Sized>(row: &R) -> EventRow {
    let mut reader = RowReader::new(row);
    reader.headers();
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let mut view = EventRow::new(reader.seq(), reader.id());
    view.event_type = reader.event_type().to_owned();
    view.aggregate_type = reader.text("aggregate_type").unwrap_or(GLOBAL).to_owned();
    view.aggregate_id = owned(reader.text("aggregate_id"));
    view.tenant_id = owned(reader.text("tenant_id"));
    view.payload_bytes = reader.number("payload_size").unwrap_or_default().unsigned_abs();
    view.status = reader.status();
    view.attempts = reader.count("attempts");
    view.deferrals = reader.count("deferrals");
    view.lost_leases = reader.count("lost_leases");
    view.replays = reader.count("replays");
    view.parked = owned(reader.text("parked"));
    view.progress = reader.progress();
    view.available_at = reader.time("available_at").unwrap_or_default();
    view.created_at = reader.time("created_at").unwrap_or_default();
    view.inserted_at = reader.time("inserted_at").unwrap_or_default();
    view.done_at = reader.time("done_at");
    view.last_error = owned(reader.text("last_error"));
    view.locked_by = owned(reader.text("locked_by"));
    view.locked_at = reader.time("locked_at");
    view.lease_until = reader.time("lease_until");
    view.malformed = reader.defect;
    view
}

/// The row with its event, as an operator sees it.
pub(crate) fn detail<R: ReadColumns + ?Sized>(row: &R) -> EventDetail {
    let mut reader = RowReader::new(row);
    let event = reader.event();
    let mut view = view(row);
    view.malformed = view.malformed.or(reader.defect);
    EventDetail::new(view, event)
}
