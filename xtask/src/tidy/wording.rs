//! Rule: the number of words that are not plain technical English only falls, in Rust files and in the prose of pages.
//!
//! `wording.txt` contains the number for each folder. A larger number is a violation. A smaller one is a violation
//! until `cargo xtask tidy --lower` has written it to the file, so that a later change cannot use up the difference.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;
use super::{Violation, count_word, numbered, prose};

const COUNTS_FILE: &str = "xtask/src/tidy/wording.txt";
const LOWER_COMMAND: &str = "cargo xtask tidy --lower";

/// The words. Each also counts with a capital first letter.
const WORDS: &[&str] = &[
    "answers",
    "nobody",
    "somebody",
    "whoever",
    "anew",
    "mend",
    "shall",
    "told",
    "stands",
    "at once",
    "is none",
    "those who",
];

/// The number of places that a violation names.
const MAX_PLACES: usize = 5;

/// File and line of each word, by folder.
type Places<'t> = BTreeMap<&'t str, Vec<String>>;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let (allowed, found) = (allowed(tree), places(tree));
    let folders: BTreeSet<&str> = allowed.keys().chain(found.keys()).copied().collect();
    folders.into_iter().filter_map(|folder| compare(folder, &allowed, &found)).collect()
}

fn compare(folder: &str, allowed: &BTreeMap<&str, usize>, found: &Places<'_>) -> Option<Violation> {
    let allowed = allowed.get(folder).copied().unwrap_or_default();
    let places = found.get(folder).map(Vec::as_slice).unwrap_or_default();
    let count = places.len();
    let advice = match count.cmp(&allowed) {
        Ordering::Equal => return None,
        Ordering::Less => format!("{folder} has {count}, not {allowed}: run `{LOWER_COMMAND}`"),
        Ordering::Greater => format!(
            "{folder} has {count} words of the list in xtask/src/tidy/wording.rs, and {allowed} are allowed: write \
             plain English. The first: {}",
            places.iter().take(MAX_PLACES).cloned().collect::<Vec<_>>().join(", ")
        ),
    };
    Some(Violation::new(COUNTS_FILE, 1, advice))
}

/// Lowers the numbers to those of today. A number that has grown stays as it is, and remains a violation.
pub(super) fn lower(tree: &Tree) -> std::io::Result<()> {
    std::fs::write(crate::cargo::root().join(COUNTS_FILE), lowered(tree))
}

fn lowered(tree: &Tree) -> String {
    let found = places(tree);
    let lines = allowed(tree).into_iter().filter_map(|(folder, allowed)| {
        let count = found.get(folder).map_or(0, Vec::len).min(allowed);
        (count > 0).then(|| format!("{folder} {count}\n"))
    });
    lines.collect()
}

fn allowed(tree: &Tree) -> BTreeMap<&str, usize> {
    let lines = tree.text(COUNTS_FILE).unwrap_or_default().lines();
    lines.filter_map(|line| line.split_once(' ')).filter_map(|(of, n)| Some((of, n.parse().ok()?))).collect()
}

/// Every place of every word, by folder. Names in code count too: these words are poor names.
fn places(tree: &Tree) -> Places<'_> {
    let mut places = Places::new();
    let capital = |word: &&str| word[..1].to_uppercase() + &word[1..];
    let words: Vec<String> = WORDS.iter().flat_map(|word| [(*word).to_owned(), capital(word)]).collect();
    let pages = tree.files().filter(|(path, _)| path.ends_with(".md"));
    for (path, text) in tree.rust_files_but_the_rules().chain(pages) {
        // Few files contain any of the words, and this is much faster than to count them.
        let words: Vec<&String> = words.iter().filter(|word| text.contains(*word)).collect();
        let count = |part: &str| words.iter().map(|word| count_word(part, word)).sum::<usize>();
        let lines: Vec<_> = match (words.is_empty(), path.ends_with(".md")) {
            (true, _) => Vec::new(),
            (_, true) => prose(text).collect(),
            (_, false) => numbered(text).collect(),
        };
        for (line_no, line) in lines {
            // Every second part is between backticks: the name of something else, such as the user `nobody`.
            let count = line.split('`').step_by(2).map(count).sum();
            let place = std::iter::repeat_n(format!("{path}:{line_no}"), count);
            places.entry(folder(path)).or_default().extend(place);
        }
    }
    places
}

/// The part of the repository that a path belongs to: a crate, `bench`, `examples`, `xtask`, or `docs` for the rest.
fn folder(path: &str) -> &str {
    match path.split('/').next() {
        Some("crates") => path.match_indices('/').nth(1).map_or(path, |(end, _)| &path[..end]),
        Some(top @ ("bench" | "examples" | "xtask")) => top,
        _ => "docs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(counts: &str, files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(&[files, &[(COUNTS_FILE, counts)]].concat());
        check(&tree).into_iter().map(|violation| violation.advice).collect()
    }

    const CODE: (&str, &str) = ("crates/a/src/b.rs", "// It answers at once.\nfn answers_it() {}\n");

    #[test]
    fn larger_number_is_reported_with_its_places() {
        let advice = found("crates/a 1\n", &[CODE]).remove(0);
        assert!(advice.starts_with("crates/a has 2 words"), "{advice}");
        assert!(advice.ends_with("The first: crates/a/src/b.rs:1, crates/a/src/b.rs:1"), "{advice}");
        assert_eq!(found("", &[("CHANGELOG.md", "Nobody\n")]).len(), 1);
    }

    #[test]
    fn smaller_number_is_reported_until_it_is_written() {
        assert_eq!(found("crates/a 2\n", &[CODE]), [""; 0]);
        assert_eq!(found("crates/a 3\n", &[CODE]), ["crates/a has 2, not 3: run `cargo xtask tidy --lower`"]);
        let tree = Tree::of(&[CODE, ("docs/p.md", "told"), (COUNTS_FILE, "bench 1\ncrates/a 3\n")]);
        assert_eq!(lowered(&tree), "crates/a 2\n", "a number that has grown stays a violation");
    }

    #[test]
    fn parts_of_names_and_code_of_pages_are_not_counted() {
        let page = ("docs/p.md", "`nobody` runs it, see `x`\n```\nnobody\n```\nanswers_it, stands-in\n");
        assert_eq!(found("docs 1\n", &[page]), [""; 0], "stands, before a hyphen");
    }
}
