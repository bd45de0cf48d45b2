//! Parsed Rust files: the module of each, and its imports.

use syn::{Attribute, UseTree};

/// The names from the root of a crate to a module or an item.
pub(super) type Path = Vec<String>;

/// A file of a crate's `src` folder.
pub(super) struct SourceFile {
    pub(super) path: String,
    /// The folder of the crate, which ends with a slash.
    pub(super) krate: String,
    pub(super) module: Path,
    pub(super) code: syn::Result<syn::File>,
}

impl SourceFile {
    /// Parses a Rust file. `None` if it is not in a `src` folder.
    pub(super) fn parse(path: &str, text: &str) -> Option<Self> {
        let (krate, file) = path.split_once("src/")?;
        let names = file.trim_end_matches(".rs").split('/').map(str::to_owned);
        let module = names.filter(|name| !["lib", "main", "mod"].contains(&name.as_str())).collect();
        Some(Self { path: path.to_owned(), krate: krate.to_owned(), module, code: syn::parse_file(text) })
    }
}

pub(super) fn is_for_tests(attrs: &[Attribute]) -> bool {
    let mut conditions = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    conditions.any(|attr| {
        attr.meta.require_list().is_ok_and(|list| {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test")
        })
    })
}

/// One name of a `use`.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Path,
    /// Its name in this module; `None` for a glob import.
    pub(super) name: Option<String>,
}

/// The names of a `use`, without groups.
pub(super) fn imports(tree: &UseTree) -> Vec<Import> {
    let mut imports = Vec::new();
    add_imports(tree, Path::new(), &mut imports);
    imports
}

fn add_imports(tree: &UseTree, mut path: Path, imports: &mut Vec<Import>) {
    let name = match tree {
        UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| add_imports(tree, path.clone(), imports));
        }
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            return add_imports(&part.tree, path, imports);
        }
        UseTree::Glob(_) => None,
        UseTree::Name(name) if name.ident == "self" => path.last().cloned(),
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            Some(name.ident.to_string())
        }
        UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            Some(rename.rename.to_string())
        }
    };
    imports.push(Import { path, name });
}

/// A path in the module `at`, made absolute: it starts at the crate root.
pub(super) fn absolute(at: &[String], path: impl IntoIterator<Item = String>) -> Path {
    let mut absolute = at.to_vec();
    for name in path {
        match name.as_str() {
            "crate" => absolute.clear(),
            "super" => drop(absolute.pop()),
            "self" => {}
            _ => absolute.push(name),
        }
    }
    absolute
}
