//! Environment: a snapshot of the variables of the process, and the secret files that variables or texts of the
//! configuration may name.

use std::env::VarError;
use std::io::{Error, ErrorKind};
use std::path::Path;

use super::bounded_file;

/// The largest file with a secret.
const MAX_SECRET_FILE_BYTES: u64 = 64 * 1024;

/// Variables, sorted by name. The value is `None` if it is not UTF-8 text.
#[derive(Clone, Default)]
pub(super) struct Environment(Vec<(String, Option<String>)>);

impl Environment {
    /// The variables of this process as they are now.
    pub(super) fn of_process() -> Self {
        let variables = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.into_string().ok()));
        let mut variables: Vec<_> = variables.collect();
        variables.sort();
        Self(variables)
    }

    pub(super) fn get(&self, name: &str) -> Result<&str, VarError> {
        let (_, value) = self.0.iter().find(|(other, _)| other == name).ok_or(VarError::NotPresent)?;
        value.as_deref().ok_or_else(|| VarError::NotUnicode(Default::default()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), Some(value.to_owned()));
        let mut variables: Vec<_> = variables.into_iter().map(owned).collect();
        variables.sort();
        Self(variables)
    }
}

/// The contents of a file without the line break at its end. The error says why the file cannot be read.
pub(super) fn secret_file(path: &Path) -> Result<String, String> {
    let read =
        bounded_file::read(path, MAX_SECRET_FILE_BYTES, "it is longer than 64 KiB, too long for a secret");
    let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidData.into()));
    let text = text.map_err(|error: Error| {
        format!("the file {} cannot be read ({error}): check that it exists and may be read", path.display())
    })?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
