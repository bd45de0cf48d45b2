//! Shared by the tests: a database for each test on every server, with a store and a table of the service.

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

/// Why a script or a savepoint in it ended early.
#[derive(Debug)]
pub enum EarlyEnd {
    Script(ScriptError),
    /// The script rolls it back.
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

/// Treats a rollback on purpose as success.
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

/// A name that no other test uses.
pub fn new_name() -> String {
    unique_name("t")
}
