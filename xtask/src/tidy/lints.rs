//! Rule: every crate inherits the lints of the workspace.

use super::Violation;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files()
        .filter(|(path, _)| path.ends_with("/Cargo.toml"))
        .filter(|(_, manifest)| !takes_workspace_lints(manifest))
        .map(|(path, manifest)| {
            let advice = "add `[lints]` with `workspace = true`";
            Violation::new(path, manifest.lines().count().max(1), advice)
        })
        .collect()
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let lints = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lints.take_while(|line| !line.starts_with('[')).any(|line| line.replace(' ', "") == "workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str) -> usize {
        check(&Tree::of(&[("crates/a/Cargo.toml", manifest)])).len()
    }

    #[test]
    fn manifest_without_workspace_lints_is_reported() {
        assert_eq!(found("[package]\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(found("[package]\nname = \"a\"\n"), 1);
        assert_eq!(found("[lints]\n\n[package]\nworkspace = true\n"), 1);
        assert_eq!(found("[lints.rust]\nworkspace = true\n"), 1);
        assert_eq!(found(""), 1);
    }

    #[test]
    fn every_crate_is_checked_and_the_workspace_is_not() {
        assert_eq!(check(&Tree::of(&[("examples/Cargo.toml", "")])).len(), 1);
        assert!(check(&Tree::of(&[("Cargo.toml", "[workspace]\n")])).is_empty());
    }
}
