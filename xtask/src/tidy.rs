//! `cargo xtask tidy`: rules for the repository that no compiler checks, each in its own file.

mod code_map;
mod core_dependencies;
mod dynamic_sql;
mod length;
mod links;
mod lints;
mod main_error;
mod module_cycles;
mod module_docs;
mod public_api;
mod sleeps;
mod source;
mod spec_ids;
mod spec_map;
mod todo_marks;
mod tree;
mod wording;

use std::{fmt, io};

use tree::Tree;

/// A rule reads the whole tree and returns every place that breaks it.
type Rule = fn(&Tree) -> Vec<Violation>;

const RULES: &[Rule] = &[
    code_map::check,
    dynamic_sql::check,
    length::check,
    links::check,
    lints::check,
    main_error::check,
    todo_marks::check,
    module_cycles::check,
    module_docs::check,
    core_dependencies::check,
    public_api::check,
    sleeps::check,
    spec_ids::check,
    spec_map::check,
    wording::check,
];

pub(crate) fn run() -> bool {
    let Some(tree) = load() else { return false };
    let violations: Vec<Violation> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => println!("tidy: {} rules hold", RULES.len()),
        n => eprintln!("tidy: {n} violations"),
    }
    violations.is_empty()
}

/// Writes the public API of the libraries as it is now.
pub(crate) fn write_api() -> bool {
    write(public_api::write)
}

/// Lowers the counts of the `wording` rule to those of today.
pub(crate) fn lower_wording() -> bool {
    write(wording::lower)
}

fn write(file: fn(&Tree) -> io::Result<()>) -> bool {
    let Some(tree) = load() else { return false };
    file(&tree).map_err(|error| eprintln!("A file cannot be written: {error}")).is_ok()
}

fn load() -> Option<Tree> {
    let tree = Tree::load(&crate::cargo::root());
    tree.map_err(|error| eprintln!("The repository cannot be read: {error}")).ok()
}

/// A place that breaks a rule, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    path: String,
    line: usize,
    advice: String,
}

impl Violation {
    /// `line` counts from one.
    fn new(path: &str, line: usize, advice: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, advice: advice.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.advice)
    }
}

/// Returns a violation for each line for which `advice` returns a text.
fn judge_lines<'t>(
    files: impl Iterator<Item = (&'t str, &'t str)>,
    advice: impl Fn(&'t str) -> Option<String>,
) -> Vec<Violation> {
    let lines =
        files.flat_map(|(path, text)| numbered(text).map(move |(line_no, line)| (path, line_no, line)));
    lines.filter_map(|(path, line_no, line)| Some(Violation::new(path, line_no, advice(line)?))).collect()
}

/// The lines of a text with their numbers, which start at one.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// The lines of a page that are not fenced code, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    numbered(page).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

fn has_word(line: &str, word: &str) -> bool {
    count_word(line, word) > 0
}

/// Counts `word` in `line`, without those that are a part of a longer name.
fn count_word(line: &str, word: &str) -> usize {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let found = line.match_indices(word).filter(|(start, _)| {
        let before = line[..*start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    });
    found.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violation_is_shown_as_its_place_and_its_advice() {
        let violation = Violation::new("docs/a.md", 7, "do this");
        assert_eq!(violation.to_string(), "docs/a.md:7: do this");
    }

    #[test]
    fn word_is_found_only_on_its_own() {
        assert!(has_word("sleep(now)", "sleep"));
        assert!(has_word("asleep, then sleep", "sleep"));
        assert!(!has_word("sleep_until", "sleep"));
        assert!(!has_word("asleep", "sleep"));
    }
}
