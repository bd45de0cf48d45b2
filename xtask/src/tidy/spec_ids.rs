//! Rule: every requirement id in a comment exists. `docs/internal/spec-ids.txt` lists all of them.

use std::collections::BTreeSet;

use super::tree::Tree;
use super::{Violation, judge_lines};

pub(super) const IDS_FILE: &str = "docs/internal/spec-ids.txt";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(list) = tree.text(IDS_FILE) else {
        let advice = "this file is missing: it lists every requirement id, one per line";
        return vec![Violation::new(IDS_FILE, 1, advice)];
    };
    let known: BTreeSet<&str> = list.lines().collect();
    judge_lines(tree.rust_files_but_the_rules(), |line| {
        let unknown: Vec<&str> = ids_in(line).filter(|id| !known.contains(id)).collect();
        let advice = || {
            format!(
                "{} is not the id of a requirement: correct it, {IDS_FILE} lists all ids",
                unknown.join(", ")
            )
        };
        (!unknown.is_empty()).then(advice)
    })
}

/// Every word of the form `S3-41`.
fn ids_in(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .filter(|word| is_document_id(word))
}

fn is_document_id(word: &str) -> bool {
    let Some((document, number)) = word.strip_prefix('S').and_then(|rest| rest.split_once('-')) else {
        return false;
    };
    document.len() == 1 && is_number(document) && is_number(number)
}

/// Whether `word` has the form of an id, `S3-41` or `T7`.
pub(super) fn is_id(word: &str) -> bool {
    is_document_id(word) || word.strip_prefix('T').is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Violation> {
        check(&Tree::of(&[(IDS_FILE, "S3-01\nS3-143\nT1\n"), ("crates/a/tests/b.rs", text)]))
    }

    #[test]
    fn id_that_does_not_exist_is_reported() {
        for (text, id) in [
            ("// S3-01 and\n// S3-144\n", "S3-144"),
            ("// S3-01\n// (S3-1).\n", "S3-1"),
            ("\n// S3-01..S9-01\n", "S9-01"),
        ] {
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].line, 2);
            assert!(found[0].advice.starts_with(&format!("{id} ")), "{text}");
        }
    }

    #[test]
    fn known_ids_and_other_words_pass() {
        assert!(found("// S3-01..S3-143, see AWS-S3-999, S3-1a, T9, S-1, S33-1\n").is_empty());
    }

    #[test]
    fn missing_list_is_reported() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn list_of_this_repository_is_complete_and_in_order() {
        let tree = Tree::load(&crate::cargo::root()).unwrap();
        let documents = [("S0-", 28), ("S1-", 45), ("S2-", 57), ("S3-", 143), ("S4-", 17)];
        let mut expected: Vec<String> = documents
            .iter()
            .flat_map(|(prefix, last)| (1..=*last).map(move |n| format!("{prefix}{n:02}")))
            .collect();
        expected.extend((1..=14).map(|n| format!("T{n}")));
        let listed: Vec<&str> = tree.text(IDS_FILE).unwrap().lines().collect();
        assert_eq!(listed, expected);
    }
}
