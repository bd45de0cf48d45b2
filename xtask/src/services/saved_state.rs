//! The saved state of a set of servers, with which another process can use and stop them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The start of the names of the servers' directories. No other directory is ever removed.
pub(super) const DIRECTORY_PREFIX: &str = "posthaste-services-";

/// A set of servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedState {
    /// All files of the servers are in here.
    pub(super) directory: PathBuf,
    /// In their start order. They are stopped in the reverse order.
    pub(super) servers: Vec<Server>,
    /// The environment variables for the tests, with their values.
    pub(super) variables: Vec<(String, String)>,
    /// Lines for the report of a test run.
    pub(super) notes: Vec<String>,
}

/// A server process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) port: u16,
    /// The signal for a clean stop, such as `INT`.
    pub(super) stop_signal: String,
}

impl SavedState {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, servers: Vec::new(), variables: Vec::new(), notes: Vec::new() }
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns `None` if the text is damaged.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|state: &Self| is_ours(&state.directory))
    }

    /// The variables as `export` lines for a shell.
    pub(super) fn exports(&self) -> String {
        self.variables.iter().map(|(name, value)| format!("export {name}={}\n", shell_word(value))).collect()
    }
}

/// Whether the directory has the name of one that was created here. It is removed later, perhaps by root, so a damaged
/// file must not name another one.
fn is_ours(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    directory.is_absolute() && name.is_some_and(|name| name.starts_with(DIRECTORY_PREFIX))
}

fn shell_word(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> SavedState {
        let server = |name: &str, pid, port, stop_signal: &str| Server {
            name: name.to_owned(),
            pid,
            port,
            stop_signal: stop_signal.to_owned(),
        };
        SavedState {
            directory: "/tmp/posthaste-services-a b".into(),
            servers: vec![server("PostgreSQL", 17, 20_001, "INT"), server("PgBouncer", 18, 20_002, "TERM")],
            variables: vec![
                ("URL".to_owned(), "postgres://postgres@127.0.0.1:20001/postgres".to_owned()),
                ("BIN".to_owned(), "/usr/lib/it's here/bin".to_owned()),
            ],
            notes: vec!["LEFT OUT: something".to_owned()],
        }
    }

    #[test]
    fn state_is_the_same_after_it_was_written_and_read() {
        assert_eq!(SavedState::from_text(&example().to_text()), Some(example()));
        let empty = SavedState::new("/tmp/posthaste-services-1".into());
        assert_eq!(SavedState::from_text(&empty.to_text()), Some(empty));
    }

    #[test]
    fn damaged_text_is_refused() {
        let text = example().to_text();
        for (part, damage) in [
            (text.as_str(), ""),
            ("\"directory\"", "\"folder\""),
            ("\"pid\": 17", "\"pid\": -1"),
            ("\"port\": 20001", "\"port\": 70000"),
            ("\"stop_signal\": \"INT\"", "\"stop_signal\": \"INT\", \"more\": 1"),
            ("}", ""),
        ] {
            let damaged = text.replacen(part, damage, 1);
            assert_ne!(damaged, text, "{part}");
            assert_eq!(SavedState::from_text(&damaged), None, "{damaged}");
        }
    }

    #[test]
    fn directory_with_another_name_is_refused() {
        for directory in ["/", "/home", "posthaste-services-1", "/tmp/posthaste-services-1/..", ""] {
            let text = SavedState::new(directory.into()).to_text();
            assert_eq!(SavedState::from_text(&text), None, "{directory}");
        }
    }

    #[test]
    fn exports_are_quoted_for_a_shell() {
        let expected = "export URL=postgres://postgres@127.0.0.1:20001/postgres\n\
                        export BIN='/usr/lib/it'\\''s here/bin'\n";
        assert_eq!(example().exports(), expected);
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("a&b"), "'a&b'");
    }

    #[test]
    fn variable_is_found_by_its_name() {
        assert_eq!(example().variable("BIN"), Some("/usr/lib/it's here/bin"));
        assert_eq!(example().variable("BI"), None);
    }
}
