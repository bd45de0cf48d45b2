//! The name of an outbox table.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of an outbox table: a letter or underscore, then letters, digits and underscores, at
/// most 48 of them, so that the side tables and indexes that are named after it fit every database.
/// It is always quoted in SQL, so a reserved word is a good name too.
///
/// ```
/// use posthaste_sqlx::TableName;
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
        let mut chars = name.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let rest = chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
        // SQLite keeps this prefix to itself.
        let reserved = name.len() >= 7 && name.as_bytes()[..7].eq_ignore_ascii_case(b"sqlite_");
        match first && rest && !reserved && name.len() <= Self::MAX_CHARS {
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

/// A name that no outbox table can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot name an outbox table: take a letter or _, then letters, digits and _, at most \
     {max} in all, not beginning with sqlite_",
    max = TableName::MAX_CHARS
)]
pub struct InvalidTableName(String);
