//! Rule: every module of a crate, and every example, starts with a sentence that says what it is or does.

use super::Violation;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter(|(path, text)| is_module(path) && !opens_with_a_sentence(text))
        .map(|(path, _)| {
            let advice = "start with `//! ` and a sentence that says what this module is or does";
            Violation::new(path, 1, advice)
        })
        .collect()
}

fn is_module(path: &str) -> bool {
    let mut parts = path.split('/');
    match parts.next() {
        Some("crates") => parts.nth(1) == Some("src"),
        Some("examples") => parts.next() == Some("src"),
        _ => false,
    }
}

/// Also accepts a Markdown file that is included as the doc comment.
fn opens_with_a_sentence(text: &str) -> bool {
    if text.starts_with("#![doc = include_str!(") {
        return true;
    }
    let first_paragraph =
        text.lines().map_while(|line| line.strip_prefix("//! ")).take_while(|line| !line.trim().is_empty());
    first_paragraph.last().is_some_and(|line| line.trim_end().ends_with(['.', ':', '?', '!']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(path: &str, text: &str) -> bool {
        check(&Tree::of(&[(path, text)])).is_empty()
    }

    #[test]
    fn module_starts_with_a_sentence() {
        let path = "crates/a/src/deep/b.rs";
        assert!(holds(path, "//! Keeps the rows.\n\nstruct Row;\n"));
        assert!(holds(path, "//! Keeps the rows\n//! and counts them.\n//!\n//! More\n"));
        assert!(holds(path, "#![doc = include_str!(\"../README.md\")]\n"));
        assert!(!holds(path, "struct Row;\n"));
        assert!(!holds(path, "//!\n//! Keeps the rows.\n"));
        assert!(!holds(path, "//! rows\n"));
        assert!(!holds(path, "\n//! Keeps the rows.\n"));
        assert!(!holds(path, ""));
    }

    #[test]
    fn only_modules_and_examples_are_checked() {
        assert!(!holds("examples/src/bin/b.rs", "struct Row;\n"));
        assert!(holds("examples/tests/b.rs", "struct Row;\n"));
        assert!(holds("crates/a/tests/b.rs", "struct Row;\n"));
        assert!(holds("crates/a/examples/src/b.rs", "struct Row;\n"));
        assert!(!holds("crates/a/src/lib.rs", "struct Row;\n"));
    }
}
