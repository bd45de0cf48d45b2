//! SQLite: the statements and values of every Writer, and the calls that run them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use posthaste::writer::NewRow;
use posthaste::{EventId, StoreError, Timestamp};
use serde::Serialize;

use crate::session::seqs_of;
use crate::{Database, RowValue, RowValues, Session, TableRef};

/// SQLite.
#[derive(Clone, Copy, Debug)]
pub enum Sqlite {}

impl Database for Sqlite {
    type Statements = Statements;
}

macro_rules! insert_into {
    () => {
        r#"INSERT INTO "{table}" (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, created_at, inserted_at, available_at,
  locked_by, locked_at, lease_token, lease_until) "#
    };
}

/// `payload` holds text or a blob, so `?10` and `?11` go to the same column.
const ONE: &str = concat!(
    insert_into!(),
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, ?11), ?12, ?17, ?17 + ?13,
       ?14, iif(?14 IS NULL, NULL, ?17), ?15, ?17 + ?16)
     ON CONFLICT (event_id) DO NOTHING"
);

/// INSERT for rows that use only the common columns and share one lease, or have none. Each value that need not be
/// extracted from the JSON saves time. `WHERE true` tells the parser that `ON CONFLICT` does not belong to a join.
const MANY_UNIFORM: &str = concat!(
    insert_into!(),
    "SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, NULL, NULL, NULL, NULL, NULL,
       value ->> 4, value ->> 5, ?2, ?2 + ?3, ?4, iif(?4 IS NULL, NULL, ?2), ?5, ?2 + ?6
     FROM jsonb_each(?1) WHERE true
     ON CONFLICT (event_id) DO NOTHING"
);

/// INSERT for all other rows. It takes the same parameters; a value in the row takes precedence over the shared one.
const MANY: &str = concat!(
    insert_into!(),
    "SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 6, value ->> 7, value ->> 8,
       value ->> 9, value ->> 10, coalesce(value ->> 4, unhex(value ->> 11)), value ->> 5, ?2,
       ?2 + coalesce(value ->> 12, ?3), coalesce(value ->> 13, ?4),
       iif(coalesce(value ->> 13, ?4) IS NULL, NULL, ?2), coalesce(value ->> 14, ?5),
       ?2 + coalesce(value ->> 15, ?6)
     FROM jsonb_each(?1) WHERE true
     ON CONFLICT (event_id) DO NOTHING"
);

const LAST_OF: &str = r#"SELECT seq, event_id FROM "{table}"
WHERE event_id IN (SELECT value FROM jsonb_each(?1)) ORDER BY seq DESC LIMIT ?2"#;

const MISSING: &str = r#"SELECT value ->> 0 FROM jsonb_each(?1)
WHERE NOT EXISTS (SELECT 1 FROM "{table}" WHERE seq = value ->> 0 AND event_id = value ->> 1)"#;

const PRESENT: &str = r#"SELECT EXISTS (SELECT 1 FROM "{table}" WHERE seq = ?1 AND event_id = ?2)"#;

/// Lists all files of the connection (a number, a name and a file), because the table may be in an attached one. Unlike
/// a SELECT, this reads no file. A service's transaction that has not read yet must not start to read: its snapshot
/// could then be older than a write of another connection, and its own write would fail.
const FILES: &str = "PRAGMA database_list";

/// The same with the creation time of the outbox, which identifies a database in memory.
const IDENTIFY: &str = r#"SELECT coalesce((SELECT applied_at FROM "{table}_schema" WHERE version = 1), 0),
  name, file FROM pragma_database_list ORDER BY seq"#;

/// The file that contains an outbox; see [`DatabaseId`](crate::DatabaseId).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFile {
    /// When the outbox was created, in microseconds since 1970.
    born: i64,
    /// Empty for a database in memory.
    file: String,
}

impl DatabaseFile {
    /// The file, given the first and last column of [`Statements::identify`] on a connection of the store itself.
    pub fn new(found: Vec<(i64, String)>) -> Option<Self> {
        found.into_iter().next().map(|(born, file)| Self { born, file })
    }

    fn is(&self, born: i64, file: &str) -> bool {
        match (self.file.as_str(), file) {
            ("", "") => born == self.born,
            ("", _) | (_, "") => false,
            (own, file) => is_same_file(Path::new(own), Path::new(file)),
        }
    }
}

/// Compares files and not only their paths: links, mounts and a change of the working directory give one file several
/// paths.
fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || file_id(one).is_some_and(|id| file_id(other) == Some(id))
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<impl PartialEq + use<>> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<impl PartialEq + use<>> {
    std::fs::canonicalize(path).ok()
}

/// The name of a file in errors.
fn name(file: &str) -> String {
    match file {
        "" => "a database in memory".to_owned(),
        file => file.to_owned(),
    }
}

/// The statements of a Writer for one table in SQLite.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statements {
    /// Inserts one row, unless its id exists. The fields of [`RowValues`] in their order are `?1` to `?16`, and `?17`
    /// is the current time in microseconds since 1970. The row id is the `seq`.
    pub insert_one: Arc<str>,
    insert_uniform: Arc<str>,
    insert_mixed: Arc<str>,
    /// Returns `seq` and `event_id` of the `?2` highest `seq`s among the ids in the JSON list `?1`. After an INSERT of
    /// many rows it shows which of them are new; see [`ids`].
    pub last_of: Arc<str>,
    /// The proof before COMMIT: returns those `seq`s of the JSON list `?1` whose row no longer exists. That is almost
    /// always none. See [`WrittenRows`].
    pub missing: Arc<str>,
    /// The proof for a transaction that wrote one row: whether the row with the `seq` `?1` and the id `?2` still
    /// exists.
    pub present: Arc<str>,
    /// Returns the files of a connection in three columns: the creation time of the outbox (any number if it does not
    /// matter), a name and a file. See [`expect_database`](Self::expect_database).
    pub identify: Arc<str>,
    /// The file of the outbox; `None` for a writer context without a store.
    database: Option<DatabaseFile>,
}

impl Statements {
    /// Statements for this table.
    pub fn new(table_ref: &TableRef) -> Self {
        let text = |template| Arc::from(table_ref.text(template));
        Self {
            insert_one: text(ONE),
            insert_uniform: text(MANY_UNIFORM),
            insert_mixed: text(MANY),
            last_of: text(LAST_OF),
            missing: text(MISSING),
            present: text(PRESENT),
            identify: text(IDENTIFY),
            database: None,
        }
    }

    /// The same statements, for an outbox in this file.
    pub fn bound_to(self, database: Option<DatabaseFile>) -> Self {
        let is_file = database.as_ref().is_some_and(|database| !database.file.is_empty());
        let identify = if is_file { FILES.into() } else { self.identify };
        Self { database, identify, ..self }
    }

    /// Whether a connection must be [identified](Self::identify): not for a writer context without a store, nor if
    /// `file` is the file of the outbox.
    pub fn must_identify(&self, file: Option<&str>) -> bool {
        let is_known = |database: &DatabaseFile| !database.file.is_empty() && file == Some(&database.file);
        self.database.as_ref().is_some_and(|database| !is_known(database))
    }

    /// Refuses a connection that does not lead to the file of the outbox. `found` is the first and the last column of
    /// [`identify`](Self::identify).
    pub fn expect_database(&self, found: &[(i64, String)]) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Ok(()) };
        match found.iter().any(|(born, file)| database.is(*born, file)) {
            true => Ok(()),
            false => {
                let connection = found.first().map_or_else(String::new, |(_, file)| name(file));
                let both_in_memory =
                    database.file.is_empty() && found.iter().all(|(_, file)| file.is_empty());
                let connection = if both_in_memory { "another one".to_owned() } else { connection };
                Err(StoreError::OtherDatabase { outbox: name(&database.file), connection })
            }
        }
    }

    /// One statement that inserts all of these rows except those whose id exists.
    pub fn insert_many<'s>(&'s self, rows: &'s [NewRow]) -> InsertBatch<'s> {
        let values: Vec<RowValues<'s>> = rows.iter().map(values).collect();
        match uniform(&values) {
            Some(first) => InsertBatch {
                statement: &self.insert_uniform,
                rows: json(&values.iter().map(common_columns).collect::<Vec<_>>()),
                due_in: first.due_in,
                owner: first.owner,
                token: first.token,
                lease_for: first.lease_for,
            },
            None => InsertBatch {
                statement: &self.insert_mixed,
                rows: json(&values.iter().map(all_columns).collect::<Vec<_>>()),
                due_in: 0,
                owner: None,
                token: 0,
                lease_for: None,
            },
        }
    }
}

/// The values of one row.
pub fn values(row: &NewRow) -> RowValues<'_> {
    RowValues::of(row)
}

/// An INSERT of many rows: `?1` is `rows`, `?2` is the current time in microseconds since 1970, and `due_in`, `owner`,
/// `token` and `lease_for` are `?3` to `?6`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InsertBatch<'s> {
    /// The statement.
    pub statement: &'s Arc<str>,
    /// All rows, as one JSON document.
    pub rows: String,
    /// The delay of rows without one of their own, in microseconds from now.
    pub due_in: i64,
    /// The engine that rows without a lease of their own are born leased to.
    pub owner: Option<&'s str>,
    /// The token of that lease.
    pub token: i64,
    /// The time until that lease ends, in microseconds from now.
    pub lease_for: Option<i64>,
}

impl<'s> InsertBatch<'s> {
    /// The values in the order of the statement's parameters.
    pub fn in_order(self, now: i64) -> [RowValue<'s>; 6] {
        let lease_for = RowValue::Int(self.lease_for);
        [self.rows.into(), now.into(), self.due_in.into(), self.owner.into(), self.token.into(), lease_for]
    }

    /// The `seq`s of `rows`, if all of them were inserted. SQLite has one writer at a time, so one statement numbers
    /// its rows without gaps, up to `last_row_id`. `None` if some ids existed; then query [`Statements::last_of`].
    pub fn seqs(rows: &[NewRow], inserted: u64, last_row_id: i64) -> Option<Vec<Option<i64>>> {
        let is_whole = inserted == rows.len() as u64;
        is_whole.then(|| (last_row_id - inserted.cast_signed() + 1..=last_row_id).map(Some).collect())
    }
}

/// The ids of these rows as a JSON list, for [`Statements::last_of`].
pub fn ids(rows: &[NewRow]) -> String {
    json(&rows.iter().map(|row| row.event.id().as_str()).collect::<Vec<_>>())
}

/// The rows that a transaction wrote, for the proof before its COMMIT.
///
/// SQLite reuses the number of a row that was rolled back, so the id must match too: see
/// [`Ledger::ids_by_seq`](posthaste::writer::Ledger::ids_by_seq).
#[derive(Debug)]
pub struct WrittenRows(HashMap<i64, EventId>);

impl WrittenRows {
    /// Rows by their `seq`.
    pub fn new(ids_by_seq: HashMap<i64, EventId>) -> Self {
        Self(ids_by_seq)
    }

    /// Whether the transaction wrote no row.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The row if there is exactly one, for [`Statements::present`].
    pub fn only(&self) -> Option<(i64, &str)> {
        let mut rows = self.0.iter();
        let first = rows.next().map(|(seq, id)| (*seq, id.as_str()));
        first.filter(|_| rows.next().is_none())
    }

    /// The parameter of [`Statements::missing`].
    pub fn to_json(&self) -> String {
        json(&self.0.iter().map(|(seq, id)| (*seq, id.as_str())).collect::<Vec<_>>())
    }

    /// The rows that still exist, given the result of [`Statements::missing`].
    pub fn present(&self, missing: impl IntoIterator<Item = i64>) -> HashSet<i64> {
        let mut present: HashSet<i64> = self.0.keys().copied().collect();
        missing.into_iter().for_each(|seq| _ = present.remove(&seq));
        present
    }
}

/// Inserts rows in one statement; returns their `seq`s, `None` where the id existed already.
pub async fn insert<S: Session>(
    session: &mut S,
    statements: &Statements,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, S::Error> {
    let [row] = rows else { return insert_many(session, statements, rows).await };
    let now = Timestamp::now().as_micros();
    let values = values(row).in_order().into_iter().chain([now.into()]).collect();
    match session.execute(&statements.insert_one, values).await? {
        0 => Ok(vec![None]),
        _ => Ok(vec![session.last_insert_id().await?]),
    }
}

async fn insert_many<S: Session>(
    session: &mut S,
    statements: &Statements,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, S::Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let batch = statements.insert_many(rows);
    let text = batch.statement;
    let inserted = session.execute(text, batch.in_order(Timestamp::now().as_micros()).into()).await?;
    let last = session.last_insert_id().await?;
    if let Some(seqs) = last.and_then(|last| InsertBatch::seqs(rows, inserted, last)) {
        return Ok(seqs);
    }
    let written = session.pairs(&statements.last_of, vec![ids(rows).into(), inserted.cast_signed().into()]);
    Ok(seqs_of(rows, written.await?))
}

/// The proof before COMMIT: returns those of these rows that the transaction still sees.
pub async fn present<S: Session>(
    session: &mut S,
    statements: &Statements,
    ids_by_seq: HashMap<i64, EventId>,
) -> Result<HashSet<i64>, S::Error> {
    let written = WrittenRows::new(ids_by_seq);
    if written.is_empty() {
        return Ok(HashSet::new());
    }
    let missing = session.numbers(&statements.missing, vec![written.to_json().into()]).await?;
    Ok(written.present(missing))
}

/// The first row, if all rows differ only in the common columns.
fn uniform<'a, 'r>(rows: &'a [RowValues<'r>]) -> Option<&'a RowValues<'r>> {
    let first = rows.first()?;
    let is_uniform = |row: &RowValues<'_>| {
        row.tenant_id.is_none()
            && row.topic.is_none()
            && row.content_type.is_none()
            && row.schema_version.is_none()
            && row.headers.is_none()
            && row.payload_text.is_some()
            && (row.due_in, row.owner, row.token) == (first.due_in, first.owner, first.token)
            && row.lease_for == first.lease_for
    };
    rows.iter().all(is_uniform).then_some(first)
}

/// The common columns of a row, as a JSON array in the order that both statements expect.
type CommonColumns<'r> = (&'r str, &'r str, &'r str, Option<&'r str>, Option<&'r str>, i64);

fn common_columns<'r>(row: &RowValues<'r>) -> CommonColumns<'r> {
    (row.event_id, row.event_type, row.aggregate_type, row.aggregate_id, row.payload_text, row.created_at)
}

/// All columns of a row: the common ones, then the others.
fn all_columns<'a>(row: &'a RowValues<'_>) -> impl Serialize + use<'a> {
    let (id, event_type, aggregate_type, aggregate_id, payload, created_at) = common_columns(row);
    (
        id,
        event_type,
        aggregate_type,
        aggregate_id,
        payload,
        created_at,
        row.tenant_id,
        row.topic,
        row.content_type,
        row.schema_version,
        row.headers.as_deref(),
        row.payload_bytes.map(hex),
        row.due_in,
        row.owner,
        row.token,
        row.lease_for,
    )
}

/// Serializes texts and numbers, which never fails.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
