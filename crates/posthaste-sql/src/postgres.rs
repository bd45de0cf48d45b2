//! PostgreSQL: its statements and its values.

use std::sync::Arc;

use posthaste::writer::NewRow;

use crate::{Database, Place, RowValues};

/// PostgreSQL, from 13 on.
#[derive(Clone, Copy, Debug)]
pub enum Postgres {}

impl Database for Postgres {
    type Statements = Statements;
}

/// Everything counts from the clock of the statement: the clock of a transaction stands still.
macro_rules! insert_into {
    () => {
        r#"INSERT INTO "{table}" (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, payload_bytes, created_at, available_at,
  locked_by, lease_token, inserted_at, locked_at) "#
    };
}

/// A time as microseconds since 1970, exactly: PostgreSQL multiplies an interval by a floating-point
/// number, which holds every number of hours, and every number of microseconds below one.
macro_rules! time {
    ($micros:literal) => {
        concat!(
            "timestamptz 'epoch' + (",
            $micros,
            " / 3600000000) * interval '1 hour' + (",
            $micros,
            " % 3600000000) * interval '1 microsecond'"
        )
    };
}

macro_rules! returning {
    () => {
        "RETURNING seq, event_id"
    };
}

/// What a savepoint writes has a number of its own, not the transaction's.
const TELLING: &str = concat!(returning!(), ", xmin <> pg_current_xact_id()::xid");

macro_rules! one {
    () => {
        concat!(
            insert_into!(),
            "VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::int8, $9::text,
               $10::text, $11::bytea, ",
            time!("$12::int8"),
            ", statement_timestamp() + $13::int8 * interval '1 microsecond', $14::text, $15::int8,
               statement_timestamp(), CASE WHEN $14::text IS NOT NULL THEN statement_timestamp() END)
             ON CONFLICT (event_id) DO NOTHING ",
            returning!()
        )
    };
}

macro_rules! many {
    () => {
        concat!(
            insert_into!(),
            "SELECT v.id, v.type, v.aggregate_type, v.aggregate_id, v.tenant, v.topic, v.content_type,
               v.version, v.headers, v.payload, v.bytes, ",
            time!("v.created_at"),
            ", statement_timestamp() + v.due * interval '1 microsecond', v.owner, v.token,
               statement_timestamp(), CASE WHEN v.owner IS NOT NULL THEN statement_timestamp() END
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
               $8::int8[], $9::text[], $10::text[], $11::bytea[], $12::int8[], $13::int8[],
               $14::text[], $15::int8[]) WITH ORDINALITY
               AS v (id, type, aggregate_type, aggregate_id, tenant, topic, content_type, version, headers,
                 payload, bytes, created_at, due, owner, token, n)
             ORDER BY v.n
             ON CONFLICT (event_id) DO NOTHING ",
            returning!()
        )
    };
}

/// Rings within the transaction, for those who asked for it.
macro_rules! notifying {
    () => {
        ", pg_notify('{name}', '')"
    };
}

const PRESENT: &str = r#"SELECT seq FROM "{table}" WHERE seq = ANY ($1::int8[])"#;

const UNLEASE: &str = r#"UPDATE "{table}" SET available_at = inserted_at, locked_by = NULL, locked_at = NULL,
  lease_token = 0 WHERE seq = ANY ($1::int8[])"#;

/// What a Writer says to PostgreSQL about one table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statements {
    /// Inserts one row: the fields of [`RowValues`] in their order are `$1` to `$15`. Answers `seq` and
    /// `event_id`, or nothing where the id existed already.
    pub insert_one: Arc<str>,
    /// Inserts many rows: the fields of [`Columns`] in their order are `$1` to `$15`. Answers the same for
    /// each row that was inserted, in no order.
    pub insert_many: Arc<str>,
    /// As [`insert_one`](Self::insert_one), and answers also whether a savepoint is open, for drivers that
    /// cannot know. What was inserted while none was stays as long as the transaction does: only the others
    /// need a proof before COMMIT. Reads the system column `xmin`.
    pub insert_one_telling: Arc<str>,
    /// As [`insert_many`](Self::insert_many), with the same answer more.
    pub insert_many_telling: Arc<str>,
    /// The proof before COMMIT: which of the `seq`s in the list `$1` the transaction still sees. Fails in a
    /// transaction that a failed statement has aborted.
    pub present: Arc<str>,
    /// Takes the leases of the `seq`s in the list `$1` back, which this transaction has inserted.
    pub unlease: Arc<str>,
    /// Whether a connection may keep them prepared. Not behind a PgBouncer in transaction mode: the next
    /// statement may reach another server.
    pub kept: bool,
}

impl Statements {
    /// For this table.
    pub fn new(place: &Place) -> Self {
        Self::of(place, one!(), many!())
    }

    /// Whose INSERT wakes relays by itself, at the commit of its transaction.
    pub fn notifying(place: &Place) -> Self {
        Self::of(place, concat!(one!(), notifying!()), concat!(many!(), notifying!()))
    }

    /// The same, and no connection keeps them prepared.
    pub fn forgotten(self) -> Self {
        Self { kept: false, ..self }
    }

    fn of(place: &Place, one: &str, many: &str) -> Self {
        let text = |template: &str| Arc::from(place.text(template));
        Self {
            insert_one: text(one),
            insert_many: text(many),
            insert_one_telling: text(&one.replace(returning!(), TELLING)),
            insert_many_telling: text(&many.replace(returning!(), TELLING)),
            present: text(PRESENT),
            unlease: text(UNLEASE),
            kept: true,
        }
    }
}

/// The values of one row.
pub fn values(row: &NewRow) -> RowValues<'_> {
    /// 4714 BC, where PostgreSQL's calendar begins; its end is beyond the last microsecond.
    const FIRST: i64 = -210_866_803_200_000_000;
    let values = RowValues::of(row);
    RowValues { created_at: values.created_at.max(FIRST), ..values }
}

/// The values of many rows, one list per column, as [`Statements::insert_many`] takes them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[allow(missing_docs, reason = "as in `RowValues`")]
pub struct Columns<'r> {
    pub event_id: Vec<&'r str>,
    pub event_type: Vec<&'r str>,
    pub aggregate_type: Vec<&'r str>,
    pub aggregate_id: Vec<Option<&'r str>>,
    pub tenant_id: Vec<Option<&'r str>>,
    pub topic: Vec<Option<&'r str>>,
    pub content_type: Vec<Option<&'r str>>,
    pub schema_version: Vec<Option<i64>>,
    pub headers: Vec<Option<String>>,
    pub payload_text: Vec<Option<&'r str>>,
    pub payload_bytes: Vec<Option<&'r [u8]>>,
    pub created_at: Vec<i64>,
    pub due_in: Vec<i64>,
    pub owner: Vec<Option<&'r str>>,
    pub token: Vec<i64>,
}

impl<'r> Columns<'r> {
    /// The columns of these rows.
    pub fn of(rows: &'r [NewRow]) -> Self {
        let mut columns = Self::default();
        rows.iter().for_each(|row| columns.push(values(row)));
        columns
    }

    fn push(&mut self, row: RowValues<'r>) {
        self.event_id.push(row.event_id);
        self.event_type.push(row.event_type);
        self.aggregate_type.push(row.aggregate_type);
        self.aggregate_id.push(row.aggregate_id);
        self.tenant_id.push(row.tenant_id);
        self.topic.push(row.topic);
        self.content_type.push(row.content_type);
        self.schema_version.push(row.schema_version);
        self.headers.push(row.headers);
        self.payload_text.push(row.payload_text);
        self.payload_bytes.push(row.payload_bytes);
        self.created_at.push(row.created_at);
        self.due_in.push(row.due_in);
        self.owner.push(row.owner);
        self.token.push(row.token);
    }
}
