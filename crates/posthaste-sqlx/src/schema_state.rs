//! Schema versions of an outbox.

use crate::OpenError;
use crate::sql::Sql;

/// A numbered step of the schema. A released step never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// 1, 2, 3, …
    pub version: u32,
    /// What the step does.
    pub name: &'static str,
    /// The oldest schema version whose programs still work after this step, also if they are started after it.
    pub works_with: u32,
}

/// What a database records about its schema; 0 if no step was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordedVersions {
    pub(crate) version: u32,
    /// The oldest schema version whose programs work after all recorded steps.
    pub(crate) works_with: u32,
}

/// The state of the schema of an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaState {
    /// The outbox table does not exist.
    Missing,
    /// The schema is complete. A newer release may have added to it in a way that lets this program work.
    Current {
        /// The version of the schema.
        version: u32,
    },
    /// Some migrations were not applied yet.
    Behind {
        /// The version of the schema.
        version: u32,
        /// The newest version that this program knows.
        latest: u32,
    },
    /// A newer release made this schema, and this program cannot work with it.
    Newer {
        /// The version of the schema.
        version: u32,
        /// The newest version that this program knows.
        latest: u32,
    },
    /// A table of this name exists, and Posthaste did not create it.
    Foreign {
        /// How it differs from an outbox.
        why: String,
        /// True if `adopt` can turn it into an outbox.
        adoptable: bool,
    },
}

/// The columns of the classic 15-column outbox table, which can be adopted.
const CLASSIC_COLUMNS: [&str; 15] = [
    "event_id",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "tenant_id",
    "payload",
    "headers",
    "status",
    "attempts",
    "available_at",
    "created_at",
    "done_at",
    "last_error",
    "locked_by",
    "locked_at",
];

impl SchemaState {
    /// The state of a schema with these recorded versions, for a program that knows the versions up to `latest`.
    pub(crate) fn of_version(recorded: RecordedVersions, latest: u32) -> Self {
        match (recorded.version, recorded.works_with) {
            (version, works_with) if works_with > latest => Self::Newer { version, latest },
            (version, _) if version >= latest => Self::Current { version },
            (version, _) => Self::Behind { version, latest },
        }
    }

    /// The state of a table with these columns and without a recorded version.
    pub(crate) fn foreign(columns: &[String]) -> Self {
        let is_missing = |name: &&str| !columns.iter().any(|column| column == name);
        let missing: Vec<&str> = CLASSIC_COLUMNS.into_iter().filter(is_missing).collect();
        let unknown = columns.iter().map(String::as_str).filter(|column| !CLASSIC_COLUMNS.contains(column));
        let unknown: Vec<&str> = unknown.collect();
        let why = match (missing.as_slice(), unknown.as_slice()) {
            ([], []) => "it is a classic 15-column outbox table without a schema version".to_owned(),
            ([], unknown) => format!("it has columns that an outbox does not know: {}", unknown.join(", ")),
            (missing, _) => format!("it lacks the columns {}", missing.join(", ")),
        };
        Self::Foreign { why, adoptable: missing.is_empty() && unknown.is_empty() }
    }

    /// The error of a program that needs the version `latest` and finds a table in this state.
    pub(crate) fn refuse(self, sql: &Sql, latest: u32) -> OpenError {
        let (table, options) = (sql.table().clone(), sql.options());
        match self {
            Self::Missing => OpenError::NoSchema { table, options },
            Self::Behind { version, .. } | Self::Current { version } => {
                OpenError::OldSchema { table, options, found: version, needed: latest }
            }
            Self::Newer { version, latest } => {
                OpenError::NewerSchema { table, found: version, known: latest }
            }
            Self::Foreign { why, adoptable } => {
                let advice = match adoptable {
                    true => "`posthaste migrate apply --adopt` upgrades it, or choose another table name",
                    false => "choose another table name for the outbox",
                };
                OpenError::ForeignTable { table, why, advice }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(version: u32, works_with: u32) -> SchemaState {
        SchemaState::of_version(RecordedVersions { version, works_with }, 3)
    }

    #[test]
    fn older_program_starts_on_a_newer_schema_that_lets_it_work() {
        assert_eq!(
            SchemaState::of_version(RecordedVersions::default(), 3),
            SchemaState::Behind { version: 0, latest: 3 }
        );
        assert_eq!(state(2, 1), SchemaState::Behind { version: 2, latest: 3 });
        assert_eq!(state(3, 3), SchemaState::Current { version: 3 });
        assert_eq!(state(5, 3), SchemaState::Current { version: 5 });
        assert_eq!(state(5, 4), SchemaState::Newer { version: 5, latest: 3 });
    }
}
