//! The variables that a configuration may be completed from, and the files with secrets.

use std::env::VarError;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The largest file with a secret.
const MAX_SECRET_FILE_BYTES: u64 = 64 * 1024;

/// Variables by name. Those that are no text are there without their value.
#[derive(Clone, Default)]
pub(super) struct Environment(Vec<(String, Option<String>)>);

impl Environment {
    /// As it is now, by name.
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

/// What a file holds, without the line break at its end; or why it cannot be read.
pub(super) fn secret_file(path: &Path) -> Result<String, String> {
    let wrong = |why: &dyn std::fmt::Display| {
        format!("the file {} cannot be read ({why}): see that it is there and may be read", path.display())
    };
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let mut text = String::new();
    file.take(MAX_SECRET_FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| wrong(&error.kind()))?;
    if text.len() as u64 > MAX_SECRET_FILE_BYTES {
        return Err(wrong(&"it is longer than 64 KiB, which is no secret"));
    }
    let end = text.strip_suffix('\n').map_or(text.len(), str::len);
    let end = text[..end].strip_suffix('\r').map_or(end, str::len);
    text.truncate(end);
    Ok(text)
}
