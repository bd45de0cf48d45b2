//! Rule: every path in backticks in a page about the code exists.

use super::tree::Tree;
use super::{Violation, judge_lines};

const PAGES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let pages = PAGES.iter().filter_map(|page| Some((*page, tree.text(page)?)));
    judge_lines(pages, |line| {
        let gone = paths(line).find(|path| !exists(tree, path))?;
        Some(format!("there is no `{gone}`: name the file that replaces it"))
    })
}

/// Whether this is the path of a file or a folder, or the end of one.
fn exists(tree: &Tree, path: &str) -> bool {
    let path = format!("/{}/", path.trim_end_matches('/'));
    tree.files().any(|(file, _)| format!("/{file}/").contains(&path))
}

/// The paths between backticks: names with a slash, and names of Rust files.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter(|span| !span.contains([' ', ':', '…']) && (span.contains('/') || span.ends_with(".rs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<usize> {
        let files = [(PAGES[0], page), ("crates/a/src/lib.rs", ""), ("crates/b/src/in/row.rs", "")];
        check(&Tree::of(&files)).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn file_that_is_gone_is_reported() {
        assert_eq!(found("# Map\n\n`lib.rs` and `gone.rs`\n"), [3]);
        assert_eq!(found("`ow.rs`\n`crates/c`\n`in/lib.rs`\n"), [1, 2, 3]);
    }

    #[test]
    fn file_that_is_there_holds() {
        for page in
            ["`lib.rs`, `in/row.rs`, gone.rs", "`crates/b`, `src/in/`", "`cargo run -p a/b`, `https://x/y`"]
        {
            assert!(found(page).is_empty(), "{page}");
        }
    }
}
