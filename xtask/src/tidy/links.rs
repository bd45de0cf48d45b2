//! Rule: every link in the documentation to a path in this repository leads to a path that exists.

use super::tree::Tree;
use super::{Violation, prose};

const ROOT_PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CHANGELOG.md"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files()
        .filter(|(path, _)| is_page(path))
        .flat_map(|(path, text)| check_page(tree, path, text))
        .collect()
}

fn is_page(path: &str) -> bool {
    let in_docs = |name: &str| name.ends_with(".md") && !name.contains('/');
    ROOT_PAGES.contains(&path) || path.strip_prefix("docs/").is_some_and(in_docs)
}

fn check_page(tree: &Tree, page: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (line_no, line) in prose(text) {
        for target in targets(line) {
            let Some(path) = local_path(page, target) else {
                continue;
            };
            if !tree.has(&path) {
                let advice = format!("the link to {target} is broken: there is no `{path}`");
                violations.push(Violation::new(page, line_no, advice));
            }
        }
    }
    violations
}

/// The targets of `[text](target)` and `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    // Every second part is between backticks and is code.
    let inline = line.split('`').step_by(2).flat_map(|outside| {
        let after_text = outside.split("](").skip(1);
        after_text.filter_map(|rest| rest.split(')').next())
    });
    inline.chain(definition).collect()
}

/// The path that a link points to, relative to the root of the repository. `None` if the link is a URL, an address or
/// a part of the same page.
fn local_path(page: &str, target: &str) -> Option<String> {
    let target = target.split_whitespace().next()?;
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let target = target.split('#').next()?;
    let is_remote = target.contains("://") || target.starts_with("mailto:");
    if target.is_empty() || is_remote {
        return None;
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(page, text), ("docs/guide.md", ""), ("crates/a/src/lib.rs", "")]);
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn link_to_a_missing_file_is_reported() {
        assert_eq!(found("README.md", "# Title\n\nSee [it](docs/gone.md).\n"), [3]);
        assert_eq!(found("README.md", "[a](docs/guide.md), [b](gone.md)\n"), [1]);
        assert_eq!(found("README.md", "[b](gone.md#part \"Title\")\n"), [1]);
        assert_eq!(found("docs/page.md", "[up](../../outside.md)\n"), [1]);
        assert_eq!(found("docs/page.md", "[it]: gone.md\n"), [1]);
    }

    #[test]
    fn link_with_a_target_passes() {
        for link in [
            "[a](guide.md)",
            "[a](./guide.md#part)",
            "[a](../crates/a/src/lib.rs)",
            "[a](../crates/a/)",
            "[a](/docs/guide.md)",
            "[a]: guide.md",
            "[a](#part)",
            "[a](https://example.org/gone.md)",
            "[a](mailto:a@example.org)",
        ] {
            assert!(found("docs/page.md", link).is_empty(), "{link}");
        }
    }

    #[test]
    fn code_contains_no_links() {
        assert!(found("README.md", "`map[key](gone)` and\n```\n[a](gone.md)\n```\n").is_empty());
        assert_eq!(found("README.md", "```\n```\n[a](gone.md)\n"), [3]);
    }

    #[test]
    fn only_pages_are_checked() {
        assert!(found("crates/a/notes.md", "[a](gone.md)").is_empty());
        assert!(found("docs/deep/notes.md", "[a](gone.md)").is_empty());
    }
}
