//! MySQL and MariaDB: their statements and their values.

use std::sync::{Arc, OnceLock};

use posthaste::writer::NewRow;

use crate::{Database, Place, RowValues};

/// MariaDB from 10.6 on, and MySQL from 8.0.13 on.
#[derive(Clone, Copy, Debug)]
pub enum MySql {}

impl Database for MySql {
    type Statements = Statements;
}

/// Which of the two servers answers. They have most of their SQL in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// MariaDB: an INSERT answers the rows that it wrote, and knows whether a transaction is open.
    MariaDb,
    /// MySQL, or what calls itself so.
    MySql,
}

impl Flavour {
    /// What the answer to [`VERSION`] says.
    pub fn of(version: &str) -> Self {
        match version.to_ascii_lowercase().contains("mariadb") {
            true => Self::MariaDb,
            false => Self::MySql,
        }
    }
}

/// Asks a server who it is.
pub const VERSION: &str = "SELECT VERSION()";

/// Two statements that tell whether a transaction is open on a MySQL server: outside of one the savepoint is
/// gone before it can be released, with the error [`NO_SAVEPOINT`]. A deadlock ends a transaction behind the
/// service's back, and what is written after it is committed at once; so this is asked before an INSERT.
/// MariaDB is asked in the INSERT itself: see [`NULL_IN_COLUMN`].
pub const IS_IN_TRANSACTION: [&str; 2] = ["SAVEPOINT posthaste", "RELEASE SAVEPOINT posthaste"];

/// The error of a savepoint that is not there.
pub const NO_SAVEPOINT: u16 = 1305;

/// The error of an INSERT without an id. MariaDB's has none outside a transaction.
pub const NULL_IN_COLUMN: u16 = 1048;

/// The error of an id that exists already. Only the statement is undone; the transaction goes on.
pub const DUPLICATE_KEY: u16 = 1062;

/// The most rows of one INSERT.
const MOST_ROWS: usize = 64;

/// How many of these rows the next INSERT takes: a power of two, so that a connection has few statements to
/// remember.
pub fn next_batch(rows: &[NewRow]) -> (&[NewRow], &[NewRow]) {
    match rows.len().min(MOST_ROWS).checked_ilog2() {
        Some(power) => rows.split_at(1 << power),
        None => (rows, rows),
    }
}

/// How many placeholders a list of so many keys gets, for the same reason. Whoever binds fewer repeats the
/// last one.
pub fn places(keys: usize) -> usize {
    keys.next_power_of_two()
}

/// The longest list of keys in one statement: MariaDB makes a subquery of a list of a thousand.
pub const MOST_KEYS: usize = 512;

const INSERT: &str =
    "INSERT INTO `{table}` (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, payload_bytes, created_at, available_at, locked_by,
  lease_token, inserted_at, locked_at) VALUES ";

/// Everything counts from the clock of the statement.
macro_rules! row {
    ($id:literal) => {
        concat!(
            "(",
            $id,
            ", ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND, \
             UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?, UTC_TIMESTAMP(6), \
             IF(locked_by IS NULL, NULL, UTC_TIMESTAMP(6)))"
        )
    };
}

const ROW: &str = row!("?");
const ROW_IN_TRANSACTION: &str = row!("IF(@@in_transaction, ?, NULL)");
const RETURNING: &str = " RETURNING seq, event_id";

const WRITTEN: &str = "SELECT seq, event_id FROM `{table}` WHERE event_id IN ({keys})";

/// Also of a transaction that has committed since ours began.
const EXISTS: &str = "SELECT seq FROM `{table}` WHERE event_id = ? LOCK IN SHARE MODE";

const PRESENT: &str = "SELECT seq FROM `{table}` WHERE seq IN ({keys})";

/// What a Writer says to MySQL or MariaDB about one table.
#[derive(Debug)]
pub struct Statements {
    place: Place,
    flavour: OnceLock<Flavour>,
    /// For 1, 2, 4, … rows.
    mariadb: Vec<Arc<str>>,
    mariadb_silent: Vec<Arc<str>>,
    mysql: Vec<Arc<str>>,
    exists: Arc<str>,
}

impl Statements {
    /// For this table, on a server that is not known yet.
    pub fn new(place: &Place) -> Self {
        let powers = || (0..=MOST_ROWS.ilog2()).map(|power| 1 << power);
        let text = |row, rows, end| Arc::from(place.text(INSERT) + &vec![row; rows].join(", ") + end);
        Self {
            place: place.clone(),
            flavour: OnceLock::new(),
            mariadb: powers().map(|rows| text(ROW_IN_TRANSACTION, rows, RETURNING)).collect(),
            mariadb_silent: powers().map(|rows| text(ROW_IN_TRANSACTION, rows, "")).collect(),
            mysql: powers().map(|rows| text(ROW, rows, "")).collect(),
            exists: place.text(EXISTS).into(),
        }
    }

    /// The same on this server.
    pub fn on(self, flavour: Flavour) -> Self {
        Self { flavour: flavour.into(), ..self }
    }

    /// The server, if it is known.
    pub fn flavour(&self) -> Option<Flavour> {
        self.flavour.get().copied()
    }

    /// The server said [who it is](VERSION).
    pub fn learn(&self, version: &str) -> Flavour {
        *self.flavour.get_or_init(|| Flavour::of(version))
    }

    /// Inserts as many rows as a [batch](next_batch) has: the fields of [`RowValues`] in their order, row
    /// after row. MariaDB answers `seq` and `event_id` of every row. MySQL answers nothing: for one row its
    /// last insert id is the `seq`, and [`written`](Self::written) tells those of many.
    ///
    /// If one of the ids existed already the statement fails with [`DUPLICATE_KEY`], and nothing of it is
    /// left: then insert the rows one by one, and ask [`exists`](Self::exists) about the one that fails.
    pub fn insert(&self, flavour: Flavour, rows: usize) -> &Arc<str> {
        let texts = match flavour {
            Flavour::MariaDb => &self.mariadb,
            Flavour::MySql => &self.mysql,
        };
        &texts[rows.max(1).ilog2() as usize]
    }

    /// The same, and MariaDB answers nothing either: for drivers that cannot read what an INSERT answers.
    pub fn insert_silently(&self, flavour: Flavour, rows: usize) -> &Arc<str> {
        let texts = match flavour {
            Flavour::MariaDb => &self.mariadb_silent,
            Flavour::MySql => &self.mysql,
        };
        &texts[rows.max(1).ilog2() as usize]
    }

    /// Answers `seq` and `event_id` of rows with so many ids.
    pub fn written(&self, ids: usize) -> String {
        self.listed(WRITTEN, ids)
    }

    /// Answers a row if this id exists.
    pub fn exists(&self) -> &Arc<str> {
        &self.exists
    }

    /// The proof before COMMIT: which of so many `seq`s the transaction still sees.
    pub fn present(&self, seqs: usize) -> String {
        self.listed(PRESENT, seqs)
    }

    fn listed(&self, template: &str, keys: usize) -> String {
        self.place.text(template).replace("{keys}", &vec!["?"; places(keys)].join(", "))
    }
}

/// The values of one row.
pub fn values(row: &NewRow) -> RowValues<'_> {
    /// The calendar of a DATETIME: the years 1000 to 9999.
    const FIRST: i64 = -30_610_224_000_000_000;
    const LAST: i64 = 253_402_300_799_999_999;
    let values = RowValues::of(row);
    RowValues { created_at: values.created_at.clamp(FIRST, LAST), ..values }
}
