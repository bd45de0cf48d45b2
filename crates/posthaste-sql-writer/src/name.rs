//! Validated names of an outbox table and of its schema, which are safe to quote in SQL.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of an outbox table: a letter or underscore, then letters, digits and underscores. Its limit of 48
/// characters leaves room for the suffixes of side tables and indexes in every database. It is always quoted in SQL, so
/// a reserved word is allowed. Default: `outbox_event`.
///
/// ```
/// use posthaste_sql_writer::TableName;
///
/// assert!("billing_outbox".parse::<TableName>().is_ok());
/// assert!("billing; DROP TABLE orders".parse::<TableName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName(Arc<str>);

impl TableName {
    /// The longest name, in characters.
    pub const MAX_CHARS: usize = 48;

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `outbox_event`.
impl Default for TableName {
    fn default() -> Self {
        Self("outbox_event".into())
    }
}

impl FromStr for TableName {
    type Err = InvalidTableName;

    fn from_str(name: &str) -> Result<Self, InvalidTableName> {
        // SQLite reserves this prefix.
        match is_identifier(name, Self::MAX_CHARS) && !has_prefix(name, "sqlite_") {
            true => Ok(Self(name.into())),
            false => Err(InvalidTableName(name.chars().take(2 * Self::MAX_CHARS).collect())),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for a name that an outbox table cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot name an outbox table: take a letter or _, then letters, digits and _, at most \
     {max} in all, not beginning with sqlite_",
    max = TableName::MAX_CHARS
)]
pub struct InvalidTableName(String);

/// The name of a PostgreSQL schema, by the same rules as a [`TableName`] but with up to 63 characters, the limit of
/// PostgreSQL. Default: `public`.
///
/// ```
/// use posthaste_sql_writer::SchemaName;
///
/// assert!("billing".parse::<SchemaName>().is_ok());
/// assert!("pg_catalog".parse::<SchemaName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchemaName(Arc<str>);

impl SchemaName {
    /// The longest name, in characters.
    pub const MAX_CHARS: usize = 63;

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `public`.
impl Default for SchemaName {
    fn default() -> Self {
        Self("public".into())
    }
}

impl FromStr for SchemaName {
    type Err = InvalidSchemaName;

    fn from_str(name: &str) -> Result<Self, InvalidSchemaName> {
        // PostgreSQL reserves this prefix.
        match is_identifier(name, Self::MAX_CHARS) && !has_prefix(name, "pg_") {
            true => Ok(Self(name.into())),
            false => Err(InvalidSchemaName(name.chars().take(2 * Self::MAX_CHARS).collect())),
        }
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for a name that a schema cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot name a schema: take a letter or _, then letters, digits and _, at most {max} in all, \
     not beginning with pg_",
    max = SchemaName::MAX_CHARS
)]
pub struct InvalidSchemaName(String);

/// Whether the name contains no character that could end a quoted identifier.
fn is_identifier(name: &str, max_chars: usize) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && name.len() <= max_chars
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
