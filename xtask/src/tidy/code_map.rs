//! Rule: a file that `ARCHITECTURE.md` names is there, in the folder that the section is about.

use super::tree::Tree;
use super::{Violation, numbered};

const CODE_MAP_FILE: &str = "ARCHITECTURE.md";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut folder = "";
    let mut violations = Vec::new();
    for (line_no, line) in numbered(tree.text(CODE_MAP_FILE).unwrap_or_default()) {
        if line.starts_with('#') {
            folder =
                spans(line).next().filter(|name| tree.has(name.trim_end_matches('/'))).unwrap_or_default();
        }
        for name in spans(line).filter(|span| span.ends_with(".rs")) {
            let is_it =
                |path: &str| path.starts_with(folder) && format!("/{path}").ends_with(&format!("/{name}"));
            if !tree.rust_files().any(|(path, _)| is_it(path)) {
                let advice = format!("there is no `{name}` in `{folder}`: name the file that took its place");
                violations.push(Violation::new(CODE_MAP_FILE, line_no, advice));
            }
        }
    }
    violations
}

/// What stands between backticks.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<usize> {
        let tree =
            Tree::of(&[(CODE_MAP_FILE, page), ("crates/a/src/lib.rs", ""), ("crates/b/src/in/row.rs", "")]);
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn file_that_is_gone_is_reported() {
        assert_eq!(found("# Map\n\n`lib.rs` and `gone.rs`\n"), [3]);
        assert_eq!(found("### `crates/a`, the core\n`row.rs`\n"), [2]);
        assert_eq!(found("### `crates/b`\n`ow.rs`\n"), [2]);
    }

    #[test]
    fn file_that_is_there_holds() {
        for page in [
            "`lib.rs`, `in/row.rs`, gone.rs",
            "### `crates/b`\n`row.rs`\n",
            "### `crates/a/`\n## Next\n`row.rs`",
        ] {
            assert!(found(page).is_empty(), "{page}");
        }
    }
}
