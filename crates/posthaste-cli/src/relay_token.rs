//! The API token of a relay, for `tail` and `top`.

use std::path::Path;

use posthaste_admin::Secret;

use crate::errors::UsageError;

/// Reads the token from the file, or from the environment if no file is given.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Secret>, UsageError> {
    let Some(file) = file else { return Ok(std::env::var("POSTHASTE_TOKEN").ok().map(Secret::new)) };
    let text = std::fs::read_to_string(file).map_err(|error| {
        UsageError::new(format!("--token-file {} cannot be read: {error}", file.display()))
    })?;
    Ok(Some(Secret::new(text.trim())))
}
