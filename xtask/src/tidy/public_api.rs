//! Rule: `docs/internal/api` lists the public API of every published library, so that a review sees each change of it.
//!
//! The lists are made from the source with syn, because rustdoc's JSON depends on the compiler and needs a build. They
//! contain all features; an item that needs one has its `#[cfg]` before it. They do not contain the output of macros
//! (except derives and thiserror's `#[from]`), auto traits such as `Send`, blanket implementations of other crates, or
//! attributes inside `cfg_attr` other than derives.

mod full_paths;
mod library;
mod lines;
mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use library::Library;

use super::tree::Tree;
use super::{Violation, numbered};

const FOLDER: &str = "docs/internal/api";
const COMMAND: &str = "cargo xtask api";

/// The number of changes that are shown; the others are counted.
const MAX_SHOWN_CHANGES: usize = 40;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let current = match lists(tree) {
        Ok(current) => current,
        Err(unparsed) => return vec![unparsed],
    };
    let files = tree.files().filter_map(|(path, _)| path.strip_prefix(FOLDER)?.strip_prefix('/'));
    let names: BTreeSet<&str> = current.keys().map(String::as_str).chain(files).collect();
    let text = |name| current.get(name).map(String::as_str).unwrap_or_default();
    names.into_iter().filter_map(|name| compare(tree, &format!("{FOLDER}/{name}"), text(name))).collect()
}

fn compare(tree: &Tree, path: &str, current: &str) -> Option<Violation> {
    let noted = tree.text(path).unwrap_or_default();
    if noted == current && tree.has(path) {
        return None;
    }
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (noted.lines().collect(), current.lines().collect());
    let line = numbered(noted).find(|(_, line)| !after.contains(line)).map_or(1, |(line_no, _)| line_no);
    let removed = before.difference(&after).map(|line| format!("\n- {line}"));
    let changes: Vec<String> =
        removed.chain(after.difference(&before).map(|line| format!("\n+ {line}"))).collect();
    let rest = match changes.len().saturating_sub(MAX_SHOWN_CHANGES) {
        0 => String::new(),
        rest => format!("\n… and {rest} more"),
    };
    let shown: String = changes.into_iter().take(MAX_SHOWN_CHANGES).collect();
    let advice = format!("the public API has changed. If that is meant, run `{COMMAND}`:{shown}{rest}");
    Some(Violation::new(path, line, advice))
}

/// Writes the lists of all libraries, and removes those of libraries that no longer exist.
pub(super) fn write(tree: &Tree) -> std::io::Result<()> {
    let lists = lists(tree).map_err(|unparsed| std::io::Error::other(unparsed.to_string()))?;
    let folder = crate::cargo::root().join(FOLDER);
    fs::create_dir_all(&folder)?;
    for file in fs::read_dir(&folder)? {
        fs::remove_file(file?.path())?;
    }
    lists.iter().try_for_each(|(name, list)| fs::write(folder.join(name), list))
}

/// The file name and the text of the list of each published library. A source file that syn cannot parse is an error,
/// because its items would be missing.
fn lists(tree: &Tree) -> Result<BTreeMap<String, String>, Violation> {
    let mut libraries: BTreeMap<&str, Library<'_>> = BTreeMap::new();
    for file in tree.sources() {
        let code = file.code.as_ref().map_err(|error| {
            Violation::new(&file.path, 1, format!("syn cannot parse this file: {error}. Correct it."))
        })?;
        if is_published_library(tree, &file.krate) {
            let name = file.krate.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let library = libraries.entry(name).or_insert_with(|| Library::new(name));
            library.add(&file.module, &code.items, &code.attrs);
        }
    }
    Ok(libraries.iter().map(|(name, library)| (format!("{name}.txt"), listing::of(library))).collect())
}

fn is_published_library(tree: &Tree, krate: &str) -> bool {
    let manifest = tree.text(&format!("{krate}Cargo.toml")).unwrap_or_default();
    let is_private = manifest.lines().any(|line| line == "publish = false");
    krate.starts_with("crates/") && !is_private && tree.has(&format!("{krate}src/lib.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTED: &str = "docs/internal/api/a.txt";

    fn found(code: &str, noted: &[(&str, &str)]) -> Vec<(String, usize, String)> {
        let files = [("crates/a/src/lib.rs", code), ("crates/b/src/main.rs", "pub fn main() {}")];
        let changes = |advice: &str| advice.split_once('\n').map(|(_, changes)| changes.to_owned());
        let violations = check(&Tree::of(&[&files, noted].concat()));
        violations
            .into_iter()
            .map(|found| (found.path, found.line, changes(&found.advice).unwrap_or_default()))
            .collect()
    }

    #[test]
    fn list_that_is_up_to_date_passes() {
        assert_eq!(found("pub fn f() {}", &[(NOTED, "pub fn a::f()\n")]), []);
    }

    #[test]
    fn every_change_is_shown() {
        for (noted, line, changes) in [
            ("pub fn a::f()\n", 1, "- pub fn a::f()\n+ pub fn a::f(x: u8)"),
            ("pub fn a::f(x: u8)\npub fn a::g()\n", 2, "- pub fn a::g()"),
            ("", 1, "+ pub fn a::f(x: u8)"),
        ] {
            let expected = [(NOTED.to_owned(), line, changes.to_owned())];
            assert_eq!(found("pub fn f(x: u8) {}", &[(NOTED, noted)]), expected);
        }
    }

    #[test]
    fn library_without_a_list_and_list_without_a_library_are_reported() {
        assert_eq!(found("", &[]).len(), 1);
        let gone = [(NOTED, "pub fn a::f()\n"), ("docs/internal/api/gone.txt", "pub fn gone::f()\n")];
        assert_eq!(found("pub fn f() {}", &gone)[0].2, "- pub fn gone::f()");
    }

    #[test]
    fn file_that_cannot_be_parsed_is_reported() {
        let violations =
            check(&Tree::of(&[("crates/a/src/lib.rs", "pub fn f( {}"), ("crates/a/src/b.rs", "")]));
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "crates/a/src/lib.rs");
        assert!(violations[0].advice.starts_with("syn cannot parse this file: "), "{}", violations[0].advice);
    }

    #[test]
    fn crate_that_is_not_published_has_no_list() {
        let manifest = ("crates/a/Cargo.toml", "[package]\npublish = false\n");
        assert_eq!(found("pub fn f() {}", &[manifest]), []);
    }
}
