//! The files of the repository, read once. A rule is a function of them, so its tests need no files.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use super::source::SourceFile;

/// The rules contain the words that they forbid, so rules about words skip this folder.
const RULES_FOLDER: &str = "xtask/src/tidy/";

/// The files of the repository.
pub(super) struct Tree {
    /// The text of each file, by its path from the root, with `/` as separator.
    files: BTreeMap<String, String>,
    /// Parsed by the first rule that needs them, because parsing takes seconds.
    sources: OnceCell<Vec<SourceFile>>,
}

impl Tree {
    pub(super) fn load(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        load_folder(root, "", &mut files)?;
        Ok(Self { files, sources: OnceCell::new() })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(owned).collect(), sources: OnceCell::new() }
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or a folder has this path.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// The path and the text of every file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The parsed files of the `src` folders of all crates.
    pub(super) fn sources(&self) -> &[SourceFile] {
        let parse = || self.rust_files().filter_map(|(path, text)| SourceFile::parse(path, text)).collect();
        self.sources.get_or_init(parse)
    }

    /// Rust files without those of the rules.
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

/// Skips git's folder, and cargo's build output wherever `CARGO_TARGET_DIR` puts it.
fn is_skipped(folder: &Path) -> bool {
    let named = |name: &str| folder.file_name().is_some_and(|is| is == name);
    named(".git") || named("target") || folder.join("CACHEDIR.TAG").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_files_and_folders_are_known() {
        let tree = Tree::of(&[("docs/guide/start.md", "")]);
        assert!(tree.has("docs/guide/start.md"));
        assert!(tree.has("docs/guide"));
        assert!(!tree.has("docs/gui"));
        assert!(!tree.has("start.md"));
    }

    #[test]
    fn this_repository_loads_without_build_output() {
        let tree = Tree::load(&crate::cargo::root()).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").is_some());
        assert!(!tree.files().any(|(path, _)| path.starts_with("target/")));
    }

    #[test]
    fn rules_may_contain_the_words_that_they_forbid() {
        let tree = Tree::of(&[("xtask/src/tidy/todo_marks.rs", ""), ("xtask/src/test.rs", "")]);
        let judged: Vec<&str> = tree.rust_files_but_the_rules().map(|(path, _)| path).collect();
        assert_eq!(judged, ["xtask/src/test.rs"]);
    }
}
