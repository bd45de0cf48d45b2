//! MySQL and MariaDB: the statements and values of every Writer, and the calls that run them.

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
    /// MariaDB: an INSERT can return the rows that it wrote, and can check that a transaction is open.
    MariaDb,
    /// MySQL, and every server whose version text does not name MariaDB.
    MySql,
}

impl Flavour {
    /// The flavour that this result of [`VERSION`] stands for.
    pub fn of(version: &str) -> Self {
        match version.to_ascii_lowercase().contains("mariadb") {
            true => Self::MariaDb,
            false => Self::MySql,
        }
    }
}

/// Returns the version text of the server, for [`Flavour::of`].
pub const VERSION: &str = "SELECT VERSION()";

/// Two statements that check whether a transaction is open on a MySQL server. Outside a transaction the savepoint is
/// gone before it can be released, and the second statement fails with [`NO_SAVEPOINT`].
///
/// Writers run them before an INSERT, because a deadlock ends a transaction without the knowledge of the service, and
/// the server would commit every later INSERT by itself. On MariaDB the INSERT makes this check itself: see
/// [`NULL_IN_COLUMN`].
pub const IS_IN_TRANSACTION: [&str; 2] = ["SAVEPOINT posthaste", "RELEASE SAVEPOINT posthaste"];

/// The error number for a savepoint that does not exist.
pub const NO_SAVEPOINT: u16 = 1305;

/// The error number for an INSERT whose `event_id` is NULL. The INSERT sets it to NULL in another database than that of
/// the outbox and, on MariaDB, outside a transaction: see [`Statements::refused`].
pub const NULL_IN_COLUMN: u16 = 1048;

/// The error number for an id that exists already. Only the statement is undone; the transaction goes on.
pub const DUPLICATE_KEY: u16 = 1062;

/// The maximum number of rows in one INSERT.
const MAX_INSERT_ROWS: usize = 64;

/// Splits off the rows of the next INSERT. Their number is a power of two, so that a connection has few different
/// statements to keep prepared.
pub fn next_batch(rows: &[NewRow]) -> (&[NewRow], &[NewRow]) {
    match rows.len().min(MAX_INSERT_ROWS).checked_ilog2() {
        Some(power) => rows.split_at(1 << power),
        None => (rows, rows),
    }
}

/// The number of placeholders in a list of this many keys: a power of two, for the same reason as in [`next_batch`]. A
/// caller with fewer keys repeats the last one.
pub fn placeholder_count(keys: usize) -> usize {
    keys.next_power_of_two()
}

/// The maximum number of keys in one statement. MariaDB turns a list of a thousand keys into a subquery, which is
/// slower.
pub const MAX_KEYS: usize = 512;

const INSERT: &str =
    "INSERT INTO `{table}` (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
  content_type, schema_version, headers, payload, payload_bytes, created_at, available_at, locked_by,
  lease_token, lease_until, inserted_at, locked_at) VALUES ";

macro_rules! database_id {
    () => {
        "SELECT CONCAT(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at), '/', DATABASE()) \
         FROM `{table}_schema` WHERE version = 1"
    };
}

/// The query for the identity of a database; see [`DatabaseId`].
pub const DATABASE_ID: &str = database_id!();

/// The identity and the server, for error texts.
const IDENTIFY: &str = concat!(
    "SELECT CONCAT(COALESCE((",
    database_id!(),
    "), CONCAT('/', DATABASE())), ' on ', @@hostname, ':', @@port)"
);

/// One row of an INSERT. All times count from the start of the statement.
macro_rules! row {
    ($id:expr) => {
        concat!(
            "(",
            $id,
            ", ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND, \
             UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, \
             UTC_TIMESTAMP(6), IF(locked_by IS NULL, NULL, UTC_TIMESTAMP(6)))"
        )
    };
}

/// The first row of an INSERT, which checks the database. A statement fails as a whole, so the check of one row is
/// enough.
macro_rules! first_row {
    ($id:literal) => {
        row!(concat!("IF(? = (", database_id!(), "), ", $id, ", NULL)"))
    };
}

/// The SQL text of any row, and of the first row if the outbox has a [`DatabaseId`].
const ROW: [&str; 2] = [row!("?"), first_row!("?")];
const ROW_IN_TRANSACTION: [&str; 2] =
    [row!("IF(@@in_transaction, ?, NULL)"), first_row!("IF(@@in_transaction, ?, NULL)")];
const RETURNING: &str = " RETURNING seq, event_id";

const WRITTEN: &str = "SELECT seq, event_id FROM `{table}` WHERE event_id IN ({keys})";

/// A locking read also sees rows of transactions that committed after this one took its snapshot.
const EXISTS: &str = "SELECT seq FROM `{table}` WHERE event_id = ? LOCK IN SHARE MODE";

const PRESENT: &str = "SELECT seq FROM `{table}` WHERE seq IN ({keys})";

/// The statements of a Writer for one table in MySQL or MariaDB.
#[derive(Debug)]
pub struct Statements {
    table_ref: TableRef,
    /// Set by a store when it is opened, or by the first write of a writer context without a store.
    flavour: OnceLock<Flavour>,
    /// INSERTs of 1, 2, 4, … rows up to [`MAX_INSERT_ROWS`], as in the next two lists.
    mariadb: Vec<Arc<str>>,
    mariadb_without_returning: Vec<Arc<str>>,
    mysql: Vec<Arc<str>>,
    exists: Arc<str>,
    /// The identity of the database, and the query that names the database of a connection in errors. `None` for a
    /// writer context without a store.
    database_id: Option<(DatabaseId, Arc<str>)>,
}

impl Statements {
    /// Statements for this table, on a server whose flavour is not known yet.
    pub fn new(table_ref: &TableRef) -> Self {
        Self::with(table_ref, None)
    }

    /// Statements for this table, whose INSERTs fail in every database but this one.
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

    /// The same statements, for a server of this flavour.
    pub fn on(self, flavour: Flavour) -> Self {
        Self { flavour: flavour.into(), ..self }
    }

    /// The flavour of the server; `None` before the first write of a writer context without a store.
    pub fn flavour(&self) -> Option<Flavour> {
        self.flavour.get().copied()
    }

    /// Sets the flavour from the result of [`VERSION`], unless it is known already.
    pub fn learn(&self, version: &str) -> Flavour {
        *self.flavour.get_or_init(|| Flavour::of(version))
    }

    /// The identity of the database: the first value of an INSERT. `None` for a writer context without a store, whose
    /// INSERTs do not check it.
    pub fn database_id(&self) -> Option<&str> {
        self.database_id.as_ref().map(|(database_id, _)| database_id.id())
    }

    /// The query that returns the database of a connection. Run it after an INSERT failed with [`NULL_IN_COLUMN`].
    /// `None` for a writer context without a store, where that error always means that no transaction was open.
    pub fn identify(&self) -> Option<&Arc<str>> {
        self.database_id.as_ref().map(|(_, identify)| identify)
    }

    /// The reason of a [`NULL_IN_COLUMN`], given the result of [`identify`](Self::identify): another database, or no
    /// transaction.
    pub fn refused(&self, found: &str) -> StoreError {
        let Some((database_id, _)) = &self.database_id else { return StoreError::NoTransaction };
        // A server may return the name of a database in another case than it was created with.
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

    /// Inserts as many rows as a [batch](next_batch) has. Its values are [`database_id`](Self::database_id) if there is
    /// one, then the fields of [`RowValues`] in their order, row after row. MariaDB returns `seq` and `event_id` of
    /// every row. MySQL returns no rows: for one row the last insert id is the `seq`; for several, query them with
    /// [`written`](Self::written).
    ///
    /// If one of the ids existed already, the statement fails with [`DUPLICATE_KEY`] and inserts nothing. Then insert
    /// the rows one by one, and query [`exists`](Self::exists) for each one that fails.
    pub fn insert(&self, flavour: Flavour, rows: usize) -> &Arc<str> {
        let texts = match flavour {
            Flavour::MariaDb => &self.mariadb,
            Flavour::MySql => &self.mysql,
        };
        &texts[rows.max(1).ilog2() as usize]
    }

    /// As [`insert`](Self::insert), without `RETURNING` on MariaDB: for drivers that cannot read the rows that an
    /// INSERT returns.
    pub fn insert_without_returning(&self, flavour: Flavour, rows: usize) -> &Arc<str> {
        let texts = match flavour {
            Flavour::MariaDb => &self.mariadb_without_returning,
            Flavour::MySql => &self.mysql,
        };
        &texts[rows.max(1).ilog2() as usize]
    }

    /// Returns `seq` and `event_id` of the rows with these ids.
    pub fn written(&self, ids: usize) -> String {
        self.listed(WRITTEN, ids)
    }

    /// Returns a row if this id exists.
    pub fn exists(&self) -> &Arc<str> {
        &self.exists
    }

    /// The proof before COMMIT: returns those of this many `seq`s that the transaction still sees.
    pub fn present(&self, seqs: usize) -> String {
        self.listed(PRESENT, seqs)
    }

    fn listed(&self, template: &str, keys: usize) -> String {
        self.table_ref.text(template).replace("{keys}", &vec!["?"; placeholder_count(keys)].join(", "))
    }
}

/// Whether an error with this number proves that a COMMIT was not executed: a deadlock, which is also what a Galera
/// cluster reports when another node has won, and the refusal of a replication group.
///
/// After every other error the outcome is unknown. A server that is shutting down may report the shutdown after it has
/// committed, and a proxy reports errors for a server that it has lost, with numbers of its own or with those of
/// clients.
pub fn proves_rollback(number: u16) -> bool {
    const DEADLOCK: u16 = 1213;
    const REFUSED_BY_GROUP: u16 = 3101;
    matches!(number, DEADLOCK | REFUSED_BY_GROUP)
}

/// The values of one row. `created_at` is clamped to the calendar of a DATETIME.
pub fn values(row: &NewRow) -> RowValues<'_> {
    /// The range of a DATETIME: the years 1000 to 9999.
    const MIN_CREATED_AT_MICROS: i64 = -30_610_224_000_000_000;
    const MAX_CREATED_AT_MICROS: i64 = 253_402_300_799_999_999;
    let values = RowValues::of(row);
    RowValues { created_at: values.created_at.clamp(MIN_CREATED_AT_MICROS, MAX_CREATED_AT_MICROS), ..values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_of_the_server_itself_prove_a_rollback() {
        assert!(proves_rollback(1213) && proves_rollback(3101));
        // A lock timeout, a shutdown, a lost server as clients report it, and as ProxySQL and MaxScale do.
        for open in [1205, 1053, 1180, 1927, 2006, 2013, 9001] {
            assert!(!proves_rollback(open), "{open}");
        }
    }

    #[test]
    fn insert_without_an_id_is_explained_by_the_database_of_its_connection() {
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
