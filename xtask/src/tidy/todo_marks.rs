//! Rule: the code contains no marks of unfinished work. Open work is an issue.

use super::tree::Tree;
use super::{Violation, has_word, judge_lines};

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    judge_lines(tree.rust_files_but_the_rules(), advice)
}

fn advice(line: &str) -> Option<String> {
    let called = MACROS.iter().find(|name| calls(line, name));
    let marked = MARKS.iter().find(|mark| has_word(line, mark));
    match (called, marked) {
        (Some(name), _) => Some(format!("`{name}!` is unfinished work: finish it or remove it")),
        (None, Some(mark)) => Some(format!("{mark}: do it now, or open an issue and remove this")),
        (None, None) => None,
    }
}

fn calls(line: &str, name: &str) -> bool {
    has_word(line, name) && line.contains(&format!("{name}!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_reported_with_its_line() {
        for mark in [
            "todo!()",
            "std::todo!(\"later\")",
            "unimplemented!()",
            "let x = dbg!(y);",
            "// TODO: later",
            "/// FIXME",
            "// XXX what is this",
        ] {
            let text = format!("fn main() {{\n    {mark}\n}}\n");
            let found = check(&Tree::of(&[("src/main.rs", &text)]));
            assert_eq!(found.len(), 1, "{mark}");
            assert_eq!(found[0].line, 2, "{mark}");
        }
    }

    #[test]
    fn names_that_only_look_like_marks_are_left_alone() {
        let text = "fn mastodon() {}\nlet todo = 1;\n// XXXL\n// see todos\nmy_todo!();\n";
        assert!(check(&Tree::of(&[("src/main.rs", text)])).is_empty());
    }
}
