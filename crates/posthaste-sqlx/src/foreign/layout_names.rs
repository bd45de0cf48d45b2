//! Names in a layout: columns of a foreign table, and values of its status column. They are validated, because
//! statements contain them between quotes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a column: a letter or underscore, then letters, digits and underscores, at most 63 of them. It is
/// always quoted in SQL, so that `aggregateId` is not `aggregateid` on PostgreSQL.
///
/// ```
/// use posthaste_sqlx::foreign::ColumnName;
///
/// assert!("aggregate_id".parse::<ColumnName>().is_ok());
/// assert!("id\" = 1 --".parse::<ColumnName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnName(Arc<str>);

impl ColumnName {
    /// The maximum length, in characters.
    pub const MAX_CHARS: usize = 63;

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ColumnName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let goes_on = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match begins && goes_on && name.len() <= Self::MAX_CHARS {
            true => Ok(Self(name.into())),
            false => Err(InvalidName {
                what: "a column",
                rule: "take a letter or _, then letters, digits and _, at most 63 in all",
            }),
        }
    }
}

impl fmt::Display for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value of the status column, such as `SENT`: at most 64 letters, digits and characters of `_-.: `.
///
/// ```
/// use posthaste_sqlx::foreign::StatusValue;
///
/// assert!("SENT".parse::<StatusValue>().is_ok());
/// assert!("it's".parse::<StatusValue>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatusValue(Arc<str>);

impl StatusValue {
    /// The maximum length, in characters.
    pub const MAX_CHARS: usize = 64;

    /// The value as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StatusValue {
    type Err = InvalidName;

    fn from_str(value: &str) -> Result<Self, InvalidName> {
        let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "_-.: ".contains(c));
        match is_plain && (1..=Self::MAX_CHARS).contains(&value.len()) {
            true => Ok(Self(value.into())),
            false => Err(InvalidName {
                what: "a status",
                rule: "take letters, digits and characters of \"_-.: \", at most 64 in all",
            }),
        }
    }
}

impl fmt::Display for StatusValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that cannot be a column name or a status value. The error does not repeat the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot name {what}: {rule}")]
pub struct InvalidName {
    what: &'static str,
    rule: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_cannot_contain_a_character_that_ends_a_quote() {
        let too_long = "a".repeat(65);
        for text in ["", "1st", "a b", "a\"", "a`", "a'", "a;", "a\0", "ä", "{table}", &too_long] {
            assert!(text.parse::<ColumnName>().is_err(), "{text:?}");
        }
        for text in ["", "it's", "a\"", "a`", "a\\", "a;", "a\n", "a\0", "ä", "{table}", "?", "$1", &too_long]
        {
            assert!(text.parse::<StatusValue>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn common_names_are_accepted_unchanged() {
        for text in ["id", "_id", "aggregateId", "ORDER"] {
            assert_eq!(text.parse::<ColumnName>().map(|name| name.to_string()).as_deref(), Ok(text));
        }
        for text in ["NEW", "in progress", "0", "true", "a-b.c:d"] {
            assert_eq!(text.parse::<StatusValue>().map(|value| value.to_string()).as_deref(), Ok(text));
        }
    }
}
