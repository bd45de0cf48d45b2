//! Rule: a Rust file has at most 600 lines.

use super::tree::Tree;
use super::{Violation, numbered};

const MAX_LINES: usize = 600;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_files()
        .filter_map(|(path, text)| {
            let (first_too_many, _) = numbered(text).nth(MAX_LINES)?;
            let lines = text.lines().count();
            let advice = format!("{lines} lines, at most {MAX_LINES}: split it by concept");
            Some(Violation::new(path, first_too_many, advice))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_past_the_limit_is_reported() {
        let longest = "\n".repeat(600);
        let too_long = "\n".repeat(601);
        let tree =
            Tree::of(&[("a/longest.rs", &longest), ("a/too_long.rs", &too_long), ("a/prose.md", &too_long)]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("a/too_long.rs", 601));
    }
}
