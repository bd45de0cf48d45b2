//! Rule: `main` in a page, an example or a doc test returns `posthaste::BoxError`, which readers can copy.

use super::tree::Tree;
use super::{Violation, judge_lines};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let is_read =
        |path: &str| path.ends_with(".md") || path.starts_with("examples/") || path.contains("/src/");
    let files = tree.files().filter(|(path, _)| is_read(path) && !path.starts_with("xtask/"));
    judge_lines(files, |line| {
        let is_boxed = line.contains("fn main()") && line.contains("Box<dyn std::error::Error");
        is_boxed.then(|| "return `Result<(), posthaste::BoxError>` from `main`".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_with_a_box_is_reported_where_users_read_it() {
        let boxed = "# async fn main() -> Result<(), Box<dyn std::error::Error>> {";
        let files = [("README.md", boxed), ("crates/a/src/lib.rs", boxed), ("crates/a/tests/b.rs", boxed)];
        let paths: Vec<String> = check(&Tree::of(&files)).into_iter().map(|found| found.path).collect();
        assert_eq!(paths, ["README.md", "crates/a/src/lib.rs"]);
        assert!(
            check(&Tree::of(&[("README.md", "fn main() -> Result<(), posthaste::BoxError> {")])).is_empty()
        );
    }
}
