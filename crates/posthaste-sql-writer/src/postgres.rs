//! PostgreSQL: the statements and values of every Writer.

use std::borrow::Cow;
use std::sync::Arc;

use posthaste::StoreError;
use posthaste::writer::NewRow;

use crate::{Database, DatabaseId, RowValue, RowValues, TableRef};

/// PostgreSQL, from 13 on.
#[derive(Clone, Copy, Debug)]
pub enum Postgres {}

impl Database for Postgres {
    type Statements = Statements;
}

/// All times count from `statement_timestamp()`, because `now()` stands still during a transaction.
macro_rules! insert_into {
    () => {
        r#"INSERT INTO "{table}" (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, payload_bytes, created_at, available_at,
  locked_by, lease_token, lease_until, inserted_at, locked_at) "#
    };
}

/// An exact time from microseconds since 1970. PostgreSQL multiplies an interval by a floating-point number, which
/// loses microseconds in large products. Both parts here are small enough to be exact: whole hours, and the
/// microseconds below one hour.
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

/// A row written in a savepoint has the id of the subtransaction, not that of the transaction.
const RETURNING_SAVEPOINT_FLAG: &str = concat!(returning!(), ", xmin <> pg_current_xact_id()::xid");

macro_rules! one {
    () => {
        concat!(
            insert_into!(),
            "VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::int8, $9::text,
               $10::text, $11::bytea, ",
            time!("$12::int8"),
            ", statement_timestamp() + $13::int8 * interval '1 microsecond', $14::text, $15::int8,
               statement_timestamp() + $16::int8 * interval '1 microsecond', statement_timestamp(),
               CASE WHEN $14::text IS NOT NULL THEN statement_timestamp() END)
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
               statement_timestamp() + v.lease * interval '1 microsecond', statement_timestamp(),
               CASE WHEN v.owner IS NOT NULL THEN statement_timestamp() END
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
               $8::int8[], $9::text[], $10::text[], $11::bytea[], $12::int8[], $13::int8[],
               $14::text[], $15::int8[], $16::int8[]) WITH ORDINALITY
               AS v (id, type, aggregate_type, aggregate_id, tenant, topic, content_type, version, headers,
                 payload, bytes, created_at, due, owner, token, lease, n)
             ORDER BY v.n
             ON CONFLICT (event_id) DO NOTHING ",
            returning!()
        )
    };
}

macro_rules! database_id {
    () => {
        r#"SELECT (extract(epoch FROM applied_at) * 1000000)::int8 || '/' || current_database()::text
           FROM "{table}_schema" WHERE version = 1"#
    };
}

/// The query for the identity of a database; see [`DatabaseId`].
pub const DATABASE_ID: &str = database_id!();

/// The error text of an INSERT in another database, before the name of that database. SQL can only fail with a chosen
/// text by casting it to another type: the message then quotes the value.
const OTHER_DATABASE: &str = "this posthaste writer is for another database than ";

/// The id of the row, or an error that names the database if it is not the one identified by `$17`.
macro_rules! guarded_id {
    ($id:literal) => {
        concat!(
            "CASE WHEN $17::text = (",
            database_id!(),
            ") THEN ",
            $id,
            " ELSE ('this posthaste writer is for another database than ' || current_database() || coalesce(' on ' || \
             host(inet_server_addr()) || ':' || inet_server_port(), ''))::int8::text END,"
        )
    };
}

/// Notifies within the transaction, for stores with `Notify::InTransaction`.
macro_rules! notifying {
    () => {
        ", pg_notify('{name}', '')"
    };
}

const PRESENT: &str = r#"SELECT seq FROM "{table}" WHERE seq = ANY ($1::int8[])"#;

/// Reads only columns that the role of a writer may read.
const UNLEASE: &str = r#"UPDATE "{table}" SET locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0
  WHERE seq = ANY ($1::int8[])"#;

/// The statements of a Writer for one table in PostgreSQL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statements {
    /// Inserts one row: the fields of [`RowValues`] in their order are `$1` to `$16`, and
    /// [`database_id`](Self::database_id) is `$17` if there is one. Returns `seq` and `event_id`, or no row if the id
    /// existed already.
    pub insert_one: Arc<str>,
    /// Inserts many rows: the fields of [`InsertColumns`] in their order are `$1` to `$16`, and
    /// [`database_id`](Self::database_id) is `$17` if there is one. Returns `seq` and `event_id` of each row that was
    /// inserted, in no order.
    pub insert_many: Arc<str>,
    /// As [`insert_one`](Self::insert_one), and returns a third column: whether a savepoint is open. It is for drivers
    /// that do not know. A row that was inserted without an open savepoint exists as long as its transaction, so only
    /// the other rows need a proof before COMMIT. Reads the system column `xmin`.
    pub insert_one_with_savepoint_flag: Arc<str>,
    /// As [`insert_many`](Self::insert_many), with the same third column.
    pub insert_many_with_savepoint_flag: Arc<str>,
    /// The proof before COMMIT: returns those `seq`s of the list `$1` that the transaction still sees. Fails in a
    /// transaction that a failed statement has aborted.
    pub present: Arc<str>,
    /// Removes the leases from the rows with the `seq`s of the list `$1`, which this transaction has inserted.
    pub unlease: Arc<str>,
    /// Whether a connection may keep the statements prepared. `false` behind a PgBouncer in transaction mode, where the
    /// next statement may reach another server process.
    pub cacheable: bool,
    /// The identity of the database; `None` for a writer context without a store.
    database_id: Option<DatabaseId>,
}

impl Statements {
    /// Statements for this table.
    pub fn new(table_ref: &TableRef) -> Self {
        Self::of(table_ref, one!(), many!())
    }

    /// Statements whose INSERT wakes relays by itself, when its transaction commits.
    pub fn notifying(table_ref: &TableRef) -> Self {
        Self::of(table_ref, concat!(one!(), notifying!()), concat!(many!(), notifying!()))
    }

    /// The same statements, which connections must not keep prepared.
    pub fn uncacheable(self) -> Self {
        Self { cacheable: false, ..self }
    }

    /// The same statements, whose INSERTs fail in every other database with an error that
    /// [`other_database`](Self::other_database) understands.
    pub fn bound_to(self, table_ref: &TableRef, database_id: DatabaseId) -> Self {
        let guard = |text: &Arc<str>, id: &str, guarded: &str| {
            Arc::from(text.replacen(&format!("{id},"), &table_ref.text(guarded), 1))
        };
        let one = |text| guard(text, "$1::text", guarded_id!("$1::text"));
        let many = |text| guard(text, "v.id", guarded_id!("v.id"));
        Self {
            insert_one: one(&self.insert_one),
            insert_many: many(&self.insert_many),
            insert_one_with_savepoint_flag: one(&self.insert_one_with_savepoint_flag),
            insert_many_with_savepoint_flag: many(&self.insert_many_with_savepoint_flag),
            database_id: Some(database_id),
            ..self
        }
    }

    /// The identity of the database: a value of every INSERT. `None` for a writer context without a store, whose
    /// INSERTs do not check it.
    pub fn database_id(&self) -> Option<&str> {
        self.database_id.as_ref().map(DatabaseId::id)
    }

    /// The error for the caller, if this message of a failed INSERT says that the connection leads to another database.
    pub fn other_database(&self, message: &str) -> Option<StoreError> {
        let (_, found) = message.split_once(OTHER_DATABASE)?;
        // The message ends with a quotation mark, which depends on the language of the server.
        let found = found.trim_end_matches(|last: char| !last.is_alphanumeric());
        let outbox =
            self.database_id.as_ref().map_or_else(String::new, |database_id| database_id.name().to_owned());
        Some(StoreError::OtherDatabase { outbox, connection: found.to_owned() })
    }

    fn of(table_ref: &TableRef, one: &str, many: &str) -> Self {
        let text = |template: &str| Arc::from(table_ref.text(template));
        Self {
            insert_one: text(one),
            insert_many: text(many),
            insert_one_with_savepoint_flag: text(&one.replace(returning!(), RETURNING_SAVEPOINT_FLAG)),
            insert_many_with_savepoint_flag: text(&many.replace(returning!(), RETURNING_SAVEPOINT_FLAG)),
            present: text(PRESENT),
            unlease: text(UNLEASE),
            cacheable: true,
            database_id: None,
        }
    }
}

/// Whether an error with this SQLSTATE proves that a COMMIT was not executed: a deferred constraint or trigger, a
/// conflict with another transaction, or a transaction that was aborted before.
///
/// After every other error the outcome is unknown. A server that is shutting down may report the shutdown after it has
/// committed, and a pooler reports errors for a server that it has lost, PgBouncer with 08P01 for example.
pub fn proves_rollback(sqlstate: &str) -> bool {
    const COMPLETION_UNKNOWN: &str = "40003";
    const ABORTED: &str = "25P02";
    let class = sqlstate.get(..2).unwrap_or_default();
    match sqlstate {
        COMPLETION_UNKNOWN => false,
        ABORTED => true,
        _ => matches!(class, "21" | "22" | "23" | "27" | "40" | "42" | "44" | "P0"),
    }
}

/// The values of one row. `created_at` is clamped to the calendar of PostgreSQL.
pub fn values(row: &NewRow) -> RowValues<'_> {
    /// 4714 BC, the first day of PostgreSQL's calendar. Its last day is later than the largest number of microseconds.
    const MIN_CREATED_AT_MICROS: i64 = -210_866_803_200_000_000;
    let values = RowValues::of(row);
    RowValues { created_at: values.created_at.max(MIN_CREATED_AT_MICROS), ..values }
}

/// The values of many rows, one list per column, as [`Statements::insert_many`] takes them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[allow(missing_docs, reason = "as in `RowValues`")]
pub struct InsertColumns<'r> {
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
    pub lease_for: Vec<Option<i64>>,
}

impl<'r> InsertColumns<'r> {
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
        self.lease_for.push(row.lease_for);
    }
}

/// The values of one column of many rows.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `RowValue`")]
pub enum ColumnValues<'r> {
    Texts(Vec<Option<Cow<'r, str>>>),
    Ints(Vec<Option<i64>>),
    Bytes(Vec<Option<&'r [u8]>>),
}

/// The columns of these rows in their order, for drivers that bind all kinds of columns in the same way.
pub fn columns(rows: &[NewRow]) -> Vec<ColumnValues<'_>> {
    let mut columns = Vec::new();
    for row in rows {
        for (n, value) in values(row).in_order().into_iter().enumerate() {
            match (columns.get_mut(n), value) {
                (Some(ColumnValues::Texts(texts)), RowValue::Text(text)) => texts.push(text),
                (Some(ColumnValues::Ints(ints)), RowValue::Int(int)) => ints.push(int),
                (Some(ColumnValues::Bytes(all)), RowValue::Bytes(bytes)) => all.push(bytes),
                (_, RowValue::Text(text)) => columns.push(ColumnValues::Texts(vec![text])),
                (_, RowValue::Int(int)) => columns.push(ColumnValues::Ints(vec![int])),
                (_, RowValue::Bytes(bytes)) => columns.push(ColumnValues::Bytes(vec![bytes])),
            }
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_of_the_server_itself_prove_a_rollback() {
        for refused in ["23503", "23505", "40001", "40P01", "25P02", "P0001", "22012", "42501"] {
            assert!(proves_rollback(refused), "{refused}");
        }
        for open in ["08P01", "08006", "57P01", "57014", "40003", "53300", "58000", "XX000", "25P01", "", "é"]
        {
            assert!(!proves_rollback(open), "{open}");
        }
    }

    #[test]
    fn error_of_another_database_names_both() {
        let statements = Statements::new(&TableRef::default());
        let statements =
            statements.bound_to(&TableRef::default(), DatabaseId::new("1/shop".into(), "shop on db1".into()));
        let message = "ungültige Eingabe für Typ bigint: »this posthaste writer is for another database than other on 10.0.0.1:5432«";
        let error = statements.other_database(message).expect("the message is recognized").to_string();
        assert!(error.contains("shop on db1,") && error.contains("other on 10.0.0.1:5432:"), "{error}");
        assert!(statements.other_database("duplicate key").is_none());
    }
}
