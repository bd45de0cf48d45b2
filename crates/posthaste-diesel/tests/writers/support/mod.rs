//! What the tests share: a database of one's own on every server, with a store and a table of the service's.

#![allow(dead_code, unreachable_pub, unused_imports, unused_macros, reason = "every test uses a part of it")]

#[macro_use]
pub mod asynchronous;
#[macro_use]
pub mod blocking;
pub mod mysql;
pub mod postgres;
pub mod sqlite;

use posthaste::conformance::ScriptError;
use posthaste::{BoxError, CommitError, WriteError};
use posthaste_testkit::unique_name;
pub use posthaste_testkit::writer_script::Statements;
pub use posthaste_testkit::{event, variable};

pub use mysql::MySql;
pub use postgres::Postgres;
pub use sqlite::Sqlite;

/// Why a script or a savepoint in it did not come to its end.
#[derive(Debug)]
pub enum EarlyEnd {
    Script(ScriptError),
    /// It was to be rolled back.
    OnPurpose,
}

impl From<WriteError> for EarlyEnd {
    fn from(error: WriteError) -> Self {
        Self::Script(error.into())
    }
}

impl From<CommitError> for EarlyEnd {
    fn from(error: CommitError) -> Self {
        Self::Script(error.into())
    }
}

impl From<diesel::result::Error> for EarlyEnd {
    fn from(error: diesel::result::Error) -> Self {
        Self::Script(ScriptError::Driver(error.into()))
    }
}

/// A savepoint or a transaction that was rolled back on purpose went well.
pub fn unless_on_purpose(result: Result<(), EarlyEnd>) -> Result<(), EarlyEnd> {
    match result {
        Err(EarlyEnd::OnPurpose) => Ok(()),
        result => result,
    }
}

pub fn script_error(early_end: EarlyEnd) -> ScriptError {
    match early_end {
        EarlyEnd::Script(error) => error,
        EarlyEnd::OnPurpose => ScriptError::Driver("it was rolled back on purpose".into()),
    }
}

/// A name that nobody else uses.
pub fn new_name() -> String {
    unique_name("t")
}
