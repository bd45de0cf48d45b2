//! The items of a library, and the targets of the paths in its modules.

use std::collections::BTreeMap;

use syn::{Attribute, Ident, Item, Visibility};

use super::lines::gates;
use crate::tidy::source::{self, Import, Path, is_for_tests};

/// The length of the longest chain of re-exports that is followed.
const MAX_REEXPORTS: usize = 8;

/// The public paths of each item, by its module and name. An item is listed under the first path: the shortest one that
/// needs no feature, or the shortest of all if each needs one.
pub(super) type PublicPaths = BTreeMap<(Path, String), Vec<PublicPath>>;

/// A path by which users reach an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicPath {
    pub(super) path: String,
    /// The `#[cfg]` attributes of the modules and re-exports on this path.
    pub(super) gates: Vec<String>,
}

/// The modules of a library and their items.
pub(super) struct Library<'t> {
    /// The name of the crate in Rust code.
    pub(super) name: String,
    pub(super) modules: BTreeMap<Path, Vec<&'t Item>>,
    /// The `#[cfg]` attributes of each module, without those of its parents.
    gates: BTreeMap<Path, Vec<String>>,
}

/// The target of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    Module(Path),
    /// The module and the name of an item of this library.
    Item(Path, String),
    /// An item of another crate or of the language.
    External(Path),
}

impl<'t> Library<'t> {
    pub(super) fn new(package: &str) -> Self {
        Self { name: package.replace('-', "_"), modules: BTreeMap::new(), gates: BTreeMap::new() }
    }

    /// Adds the items of a module without its tests. `attrs` are the attributes of the module.
    pub(super) fn add(&mut self, module: &[String], items: &'t [Item], attrs: &[Attribute]) {
        self.gates.entry(module.to_vec()).or_default().extend(gates(attrs));
        let mut kept = Vec::new();
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let Item::Mod(inner) = item {
                let path = [module, &[inner.ident.to_string()]].concat();
                match &inner.content {
                    Some((_, items)) => self.add(&path, items, &inner.attrs),
                    None => self.gates.entry(path).or_default().extend(gates(&inner.attrs)),
                }
            }
            kept.push(item);
        }
        self.modules.entry(module.to_vec()).or_default().extend(kept);
    }

    pub(super) fn items(&self, module: &[String]) -> &[&'t Item] {
        self.modules.get(module).map(Vec::as_slice).unwrap_or_default()
    }

    /// The `#[cfg]` attributes of a module and of its parents.
    pub(super) fn gates(&self, module: &[String]) -> Vec<String> {
        (0..=module.len()).filter_map(|len| self.gates.get(&module[..len])).flatten().cloned().collect()
    }

    /// The target of `path` in `module`.
    pub(super) fn resolve(&self, module: &[String], path: &[String]) -> Target {
        self.follow(module, path, MAX_REEXPORTS).unwrap_or_else(|| Target::External(path.to_vec()))
    }

    fn follow(&self, module: &[String], path: &[String], reexports: usize) -> Option<Target> {
        let absolute = source::absolute(module, path.iter().cloned());
        let mut len = 0;
        // A module and a function may have the same name: the last name of the path means the function.
        while len < absolute.len()
            && self.modules.contains_key(&absolute[..=len])
            && !self.ends_at(&absolute, len)
        {
            len += 1;
        }
        let (at, rest) = absolute.split_at(len);
        let Some((name, rest)) = rest.split_first() else { return Some(Target::Module(absolute)) };
        if self.items(at).iter().any(|item| is_called(item, name)) {
            return rest.is_empty().then(|| Target::Item(at.to_vec(), name.clone()));
        }
        self.follow_imports(at, name, rest, reexports.checked_sub(1)?)
    }

    /// Whether the name at `len` is the last of the path and that of an item.
    fn ends_at(&self, path: &[String], len: usize) -> bool {
        len + 1 == path.len() && self.items(&path[..len]).iter().any(|item| is_called(item, &path[len]))
    }

    fn follow_imports(&self, at: &[String], name: &str, rest: &[String], reexports: usize) -> Option<Target> {
        let imports = || {
            self.items(at).iter().filter_map(|item| as_use(item)).flat_map(|item| source::imports(&item.tree))
        };
        if let Some(import) = imports().find(|import| import.name.as_deref() == Some(name)) {
            let path = [&*import.path, rest].concat();
            let target = self.follow(at, &path, reexports);
            return Some(target.unwrap_or(Target::External(path)));
        }
        let globs = imports().filter(|import| import.name.is_none());
        let mut targets = globs.filter_map(|Import { path, .. }| {
            let Target::Module(module) = self.follow(at, &path, reexports)? else { return None };
            self.follow(&module, &[&[name.to_owned()], rest].concat(), reexports)
        });
        targets.find(|target| !matches!(target, Target::External(_)))
    }
}

fn as_use(item: &Item) -> Option<&syn::ItemUse> {
    if let Item::Use(item) = item { Some(item) } else { None }
}

pub(super) fn is_called(item: &Item, name: &str) -> bool {
    named(item).is_some_and(|(ident, _)| ident == name)
}

/// The name and visibility of an item that can be re-exported. `None` for a module.
pub(super) fn named(item: &Item) -> Option<(&Ident, &Visibility)> {
    let (_, name) = parts(item);
    name.filter(|_| !matches!(item, Item::Mod(_)))
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    parts(item).0
}

/// The attributes of an item, and its name and visibility if it has them.
fn parts(item: &Item) -> (&[Attribute], Option<(&Ident, &Visibility)>) {
    match item {
        Item::Const(item) => (&item.attrs, Some((&item.ident, &item.vis))),
        Item::Enum(item) => (&item.attrs, Some((&item.ident, &item.vis))),
        Item::Fn(item) => (&item.attrs, Some((&item.sig.ident, &item.vis))),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, None),
        Item::Mod(item) => (&item.attrs, Some((&item.ident, &item.vis))),
        Item::Static(item) => (&item.attrs, Some((&item.ident, &item.vis))),
        Item::Struct(item) => (&item.attrs, Some((&item.ident, &item.vis))),
        Item::Trait(item) => (&item.attrs, Some((&item.ident, &item.vis))),
        Item::Type(item) => (&item.attrs, Some((&item.ident, &item.vis))),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}
