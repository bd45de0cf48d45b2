//! The repository's files, read once, so that every rule is a function of text.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// The rules' own files spell out what they forbid, so rules about words pass them by.
const RULES_FOLDER: &str = "xtask/src/tidy/";

/// Path from the root, with `/`, to text.
pub(super) struct Tree(BTreeMap<String, String>);

impl Tree {
    pub(super) fn load(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        load_folder(root, "", &mut files)?;
        Ok(Self(files))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self(files.iter().map(owned).collect())
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Whether a file or a folder stands there.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.0.contains_key(path) || self.0.keys().any(|file| file.starts_with(&folder))
    }

    /// Path and text of every file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Rust files in which a forbidden word is a breach and not a rule's own text.
    pub(super) fn rust_files_but_the_rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rust_files().filter(|(path, _)| !path.starts_with(RULES_FOLDER))
    }
}

fn load_folder(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{prefix}{}", name.to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() && !is_skipped(&entry.path()) {
            load_folder(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path())?;
            files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(())
}

/// Git's own folder, and what cargo builds, wherever `CARGO_TARGET_DIR` puts it.
fn is_skipped(folder: &Path) -> bool {
    let named = |name: &str| folder.file_name().is_some_and(|is| is == name);
    named(".git") || named("target") || folder.join("CACHEDIR.TAG").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_there_and_others_are_not() {
        let tree = Tree::of(&[("docs/guide/start.md", "")]);
        assert!(tree.has("docs/guide/start.md"));
        assert!(tree.has("docs/guide"));
        assert!(!tree.has("docs/gui"));
        assert!(!tree.has("start.md"));
    }

    #[test]
    fn this_repository_loads_without_what_cargo_built() {
        let tree = Tree::load(&crate::cargo::root()).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").is_some());
        assert!(!tree.files().any(|(path, _)| path.starts_with("target/")));
    }

    #[test]
    fn rules_themselves_may_spell_what_they_forbid() {
        let tree = Tree::of(&[("xtask/src/tidy/todo_marks.rs", ""), ("xtask/src/test.rs", "")]);
        let judged: Vec<&str> = tree.rust_files_but_the_rules().map(|(path, _)| path).collect();
        assert_eq!(judged, ["xtask/src/test.rs"]);
    }
}
