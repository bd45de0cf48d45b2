//! MySQL and MariaDB: their statements and their values, and what every Writer does with them.

mod session;

use std::sync::{Arc, OnceLock};

use posthaste::StoreError;
use posthaste::writer::NewRow;

use crate::{Database, DatabaseId, RowValues, TableRef};

pub use session::{MySqlSession, flavour, insert, present, refused};

/// MariaDB from 10.6 on, and MySQL from 8.0.13 on.
#[derive(Clone, Copy, Debug)]
pub enum MySql {}

impl Database for MySql {
    type Statements = Statements;
}

/// The kind of server. The two have most of their SQL in common. Treat a kind that you do not know as
/// [`MySql`](Self::MySql): servers that are derived from MySQL speak its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// The error of an INSERT without an id. It has none in another database than that of the outbox, and
/// MariaDB's has none outside a transaction either: see [`Statements::refused`].
pub const NULL_IN_COLUMN: u16 = 1048;

/// The error of an id that exists already. Only the statement is undone; the transaction goes on.
pub const DUPLICATE_KEY: u16 = 1062;

/// The most rows of one INSERT.
const MAX_INSERT_ROWS: usize = 64;

/// How many of these rows the next INSERT takes: a power of two, so that a connection has few statements to
/// remember.
pub fn next_batch(rows: &[NewRow]) -> (&[NewRow], &[NewRow]) {
    match rows.len().min(MAX_INSERT_ROWS).checked_ilog2() {
        Some(power) => rows.split_at(1 << power),
        None => (rows, rows),
    }
}

/// How many placeholders a list of so many keys gets, for the same reason. Whoever binds fewer repeats the
/// last one.
pub fn placeholder_count(keys: usize) -> usize {
    keys.next_power_of_two()
}

/// The longest list of keys in one statement: MariaDB makes a subquery of a list of a thousand.
pub const MAX_KEYS: usize = 512;

const INSERT: &str =
    "INSERT INTO `{table}` (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, payload_bytes, created_at, available_at, locked_by,
  lease_token, inserted_at, locked_at) VALUES ";

macro_rules! database_id {
    () => {
        "SELECT CONCAT(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at), '/', DATABASE()) \
         FROM `{table}_schema` WHERE version = 1"
    };
}

/// Asks a database which one it is; see [`DatabaseId`].
pub const DATABASE_ID: &str = database_id!();

/// The same for people: the server too.
const IDENTIFY: &str = concat!(
    "SELECT CONCAT(COALESCE((",
    database_id!(),
    "), CONCAT('/', DATABASE())), ' on ', @@hostname, ':', @@port)"
);

/// Everything counts from the clock of the statement.
macro_rules! row {
    ($id:expr) => {
        concat!(
            "(",
            $id,
            ", ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND, \
             UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?, UTC_TIMESTAMP(6), \
             IF(locked_by IS NULL, NULL, UTC_TIMESTAMP(6)))"
        )
    };
}

/// A statement fails as a whole, so it is enough that its first row knows where it belongs.
macro_rules! first_row {
    ($id:literal) => {
        row!(concat!("IF(? = (", database_id!(), "), ", $id, ", NULL)"))
    };
}

/// A row, and the first one in an outbox that knows its [`DatabaseId`].
const ROW: [&str; 2] = [row!("?"), first_row!("?")];
const ROW_IN_TRANSACTION: [&str; 2] =
    [row!("IF(@@in_transaction, ?, NULL)"), first_row!("IF(@@in_transaction, ?, NULL)")];
const RETURNING: &str = " RETURNING seq, event_id";

const WRITTEN: &str = "SELECT seq, event_id FROM `{table}` WHERE event_id IN ({keys})";

/// Also of a transaction that has committed since ours began.
const EXISTS: &str = "SELECT seq FROM `{table}` WHERE event_id = ? LOCK IN SHARE MODE";

const PRESENT: &str = "SELECT seq FROM `{table}` WHERE seq IN ({keys})";

/// What a Writer says to MySQL or MariaDB about one table.
#[derive(Debug)]
pub struct Statements {
    table_ref: TableRef,
    flavour: OnceLock<Flavour>,
    /// For 1, 2, 4, … rows.
    mariadb: Vec<Arc<str>>,
    mariadb_without_returning: Vec<Arc<str>>,
    mysql: Vec<Arc<str>>,
    exists: Arc<str>,
    database_id: Option<(DatabaseId, Arc<str>)>,
}

impl Statements {
    /// For this table, on a server that is not known yet.
    pub fn new(table_ref: &TableRef) -> Self {
        Self::with(table_ref, None)
    }

    /// The same, and in every other database an INSERT fails.
    pub fn bound_to(table_ref: &TableRef, database_id: DatabaseId) -> Self {
        Self::with(table_ref, Some((database_id, table_ref.text(IDENTIFY).into())))
    }

    fn with(table_ref: &TableRef, database_id: Option<(DatabaseId, Arc<str>)>) -> Self {
        let powers = || (0..=MAX_INSERT_ROWS.ilog2()).map(|power| 1 << power);
        let text = |[row, first]: [&str; 2], rows, end| {
            let mut all = vec![row; rows];
            if database_id.is_some() {
                all[0] = first;
            }
            Arc::from(table_ref.text(&(INSERT.to_owned() + &all.join(", "))) + end)
        };
        Self {
            table_ref: table_ref.clone(),
            flavour: OnceLock::new(),
            mariadb: powers().map(|rows| text(ROW_IN_TRANSACTION, rows, RETURNING)).collect(),
            mariadb_without_returning: powers().map(|rows| text(ROW_IN_TRANSACTION, rows, "")).collect(),
            mysql: powers().map(|rows| text(ROW, rows, "")).collect(),
            exists: table_ref.text(EXISTS).into(),
            database_id,
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

    /// Which database the rows belong to: the first value of an INSERT. None for a writer context without a
    /// store, whose INSERTs do not ask.
    pub fn database_id(&self) -> Option<&str> {
        self.database_id.as_ref().map(|(database_id, _)| database_id.id())
    }

    /// Returns where a connection leads, to be asked when an INSERT had no id: see [`NULL_IN_COLUMN`]. None
    /// for a writer context without a store, where it can only mean that no transaction was open.
    pub fn identify(&self) -> Option<&Arc<str>> {
        self.database_id.as_ref().map(|(_, identify)| identify)
    }

    /// Why an INSERT had no id, when this was the answer to [`identify`](Self::identify).
    pub fn refused(&self, found: &str) -> StoreError {
        let Some((database_id, _)) = &self.database_id else { return StoreError::NoTransaction };
        // Names of databases may be in another case than they were made.
        let is_same =
            found.get(..database_id.id().len()).is_some_and(|id| id.eq_ignore_ascii_case(database_id.id()));
        let (_, found) = found.split_once('/').unwrap_or(("", found));
        match is_same {
            true => StoreError::NoTransaction,
            false => StoreError::OtherDatabase {
                outbox: database_id.name().to_owned(),
                connection: found.to_owned(),
            },
        }
    }

    /// Inserts as many rows as a [batch](next_batch) has: [`database_id`](Self::database_id) if there is one, then the
    /// fields of [`RowValues`] in their order, row after row. MariaDB answers `seq` and `event_id` of every row. MySQL answers nothing: for one row its
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
    pub fn insert_without_returning(&self, flavour: Flavour, rows: usize) -> &Arc<str> {
        let texts = match flavour {
            Flavour::MariaDb => &self.mariadb_without_returning,
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
        self.table_ref.text(template).replace("{keys}", &vec!["?"; placeholder_count(keys)].join(", "))
    }
}

/// Whether an error with this number proves that a COMMIT was not done: a deadlock, which is also what a Galera
/// cluster calls it when another node has won, and the refusal of a replication group.
///
/// Everything else leaves it open. A server that is shutting down may say so after it has committed, and a
/// proxy speaks for a server that it has lost, with numbers of its own or with those of clients.
pub fn proves_rollback(number: u16) -> bool {
    const DEADLOCK: u16 = 1213;
    const REFUSED_BY_GROUP: u16 = 3101;
    matches!(number, DEADLOCK | REFUSED_BY_GROUP)
}

/// The values of one row.
pub fn values(row: &NewRow) -> RowValues<'_> {
    /// The calendar of a DATETIME: the years 1000 to 9999.
    const MIN_CREATED_AT_MICROS: i64 = -30_610_224_000_000_000;
    const MAX_CREATED_AT_MICROS: i64 = 253_402_300_799_999_999;
    let values = RowValues::of(row);
    RowValues { created_at: values.created_at.clamp(MIN_CREATED_AT_MICROS, MAX_CREATED_AT_MICROS), ..values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_itself_refuses_is_called_rolled_back() {
        assert!(proves_rollback(1213) && proves_rollback(3101));
        // A lock's timeout, a shutdown, a lost server in the words of a client, and of ProxySQL and MaxScale.
        for open in [1205, 1053, 1180, 1927, 2006, 2013, 9001] {
            assert!(!proves_rollback(open), "{open}");
        }
    }

    #[test]
    fn insert_without_an_id_is_explained_by_where_it_was_sent() {
        let statements = Statements::bound_to(
            &TableRef::default(),
            DatabaseId::new("17/shop".into(), "shop on db1".into()),
        );
        assert!(matches!(statements.refused("17/Shop on db1:3306"), StoreError::NoTransaction));
        for (found, name) in
            [("18/shop on db2:3306", "shop on db2:3306"), ("/other on db1:3306", "other on db1:3306")]
        {
            let error = statements.refused(found);
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
