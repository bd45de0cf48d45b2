//! Rule: sibling modules use each other in one direction only. A module may use its parent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use syn::visit::{self, Visit};
use syn::{ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemUse, Macro, Visibility};

use super::source::{self, Path, is_for_tests};
use super::tree::Tree;
use super::{Violation, has_word, numbered};

/// The siblings that each module uses, with the file and the item of one such use.
type Uses<'t> = BTreeMap<String, BTreeMap<String, (&'t str, String)>>;

/// The length of the longest chain of re-exports that is followed.
const MAX_REEXPORTS: usize = 8;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for file in tree.sources() {
        // `public_api` reports a file that cannot be parsed.
        let Ok(code) = &file.code else { continue };
        let read = crates.entry(&file.krate).or_default();
        read.modules.insert(file.module.clone());
        (read.file, read.at) = (&file.path, file.module.clone());
        read.visit_file(code);
    }
    crates.values().flat_map(Crate::uses).flat_map(|uses| violations(tree, &uses)).collect()
}

fn violations(tree: &Tree, uses: &Uses<'_>) -> Vec<Violation> {
    let cycles = uses.keys().filter_map(|start| cycle(uses, start));
    // A cycle is found once from each of its modules: keep the one that starts with the first name.
    let cycles = cycles.filter(|cycle| cycle.iter().min() == cycle.first());
    let violation = |cycle: Vec<&str>| {
        let (file, item) = &uses[cycle[0]][cycle[1]];
        let lines = numbered(tree.text(file).unwrap_or_default());
        let mut code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
        let line = code.find(|(_, line)| has_word(line, item)).map_or(1, |(line, _)| line);
        let chain = cycle.join(" → ");
        let advice =
            format!("modules use each other: {chain}: move what they share to a module that uses neither");
        Violation::new(file, line, advice)
    };
    cycles.map(violation).collect()
}

/// The shortest cycle through `start`, which is its first and its last name.
fn cycle<'u>(uses: &'u Uses<'_>, start: &'u str) -> Option<Vec<&'u str>> {
    let (mut ways, mut seen) = (VecDeque::from([vec![start]]), BTreeSet::new());
    while let Some(way) = ways.pop_front() {
        for next in uses.get(*way.last()?).into_iter().flat_map(BTreeMap::keys) {
            let longer = [&*way, &[next]].concat();
            match next == start {
                true => return Some(longer),
                false if seen.insert(next) => ways.push_back(longer),
                false => {}
            }
        }
    }
    None
}

/// The modules of a crate and the paths in them.
#[derive(Default)]
struct Crate<'t> {
    modules: BTreeSet<Path>,
    test_modules: BTreeSet<Path>,
    /// The target of each imported name.
    imports: BTreeMap<Path, Path>,
    /// Each path with the module that contains it, and the file of its first occurrence. Paths start at the crate root.
    references: BTreeMap<(Path, Path), &'t str>,
    /// The file that is being read.
    file: &'t str,
    /// The module that is being read.
    at: Path,
}

impl<'t> Crate<'t> {
    /// The uses between siblings, for each parent.
    fn uses(&self) -> Vec<Uses<'t>> {
        let mut uses: BTreeMap<&[String], Uses<'t>> = BTreeMap::new();
        for ((from, path), file) in &self.references {
            let (to, item) = (self.module_of(path.clone()), path.last().cloned().unwrap_or_default());
            let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
            let is_test = (0..=from.len()).any(|len| self.test_modules.contains(&from[..len]));
            if let (Some(user), Some(used), false) = (from.get(shared), to.get(shared), is_test) {
                let uses = uses.entry(&from[..shared]).or_default().entry(user.clone()).or_default();
                uses.entry(used.clone()).or_insert((file, item));
            }
        }
        uses.into_values().collect()
    }

    /// The module that defines the target of a path.
    fn module_of(&self, mut path: Path) -> Path {
        for _ in 0..MAX_REEXPORTS {
            let is_no_module = |len: &usize| !self.modules.contains(&path[..*len]);
            let Some(len) = (1..=path.len()).find(is_no_module) else { return path };
            match self.imports.get(&path[..len]) {
                Some(target) => path = [target, &path[len..]].concat(),
                None => return path[..len - 1].to_vec(),
            }
        }
        Path::new()
    }

    fn absolute(&self, path: impl IntoIterator<Item = String>) -> Path {
        source::absolute(&self.at, path)
    }

    fn refer(&mut self, path: Path) {
        self.references.entry((self.at.clone(), path)).or_insert(self.file);
    }
}

macro_rules! skip_tests {
    ($($visit:ident: $item:ty),*) => {
        $(fn $visit(&mut self, item: &'a $item) {
            if !is_for_tests(&item.attrs) {
                visit::$visit(self, item);
            }
        })*
    };
}

impl<'a> Visit<'a> for Crate<'_> {
    skip_tests!(visit_item_fn: ItemFn, visit_item_impl: ItemImpl, visit_impl_item_fn: ImplItemFn);

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        self.at.push(module.ident.to_string());
        if is_for_tests(&module.attrs) {
            self.test_modules.insert(self.at.clone());
        } else if module.content.is_some() {
            self.modules.insert(self.at.clone());
            visit::visit_item_mod(self, module);
        }
        self.at.pop();
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if item.leading_colon.is_none() && !is_for_tests(&item.attrs) {
            for import in source::imports(&item.tree) {
                let target = self.absolute(import.path);
                if let Some(name) = import.name {
                    self.imports.insert(self.absolute([name]), target.clone());
                }
                self.refer(target);
            }
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            self.refer(self.absolute(path.segments.iter().map(|segment| segment.ident.to_string())));
        }
        visit::visit_path(self, path);
    }

    /// A visibility such as `pub(in path)` is not a use.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    /// The tokens of a macro are not parsed: every path in them counts.
    fn visit_macro(&mut self, item: &'a Macro) {
        let tokens = item.tokens.to_string().replace(" :: ", "::");
        for word in tokens.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
            if ["crate::", "self::", "super::"].iter().any(|start| word.starts_with(start)) {
                self.refer(self.absolute(word.split("::").map(str::to_owned)));
            }
        }
        visit::visit_macro(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let violations = check(&Tree::of(files));
        let chain =
            |violation: &Violation| violation.advice.split(": ").nth(1).unwrap_or_default().to_owned();
        violations
            .iter()
            .map(|violation| format!("{}:{} {}", violation.path, violation.line, chain(violation)))
            .collect()
    }

    #[test]
    fn two_modules_that_use_each_other_are_reported_once() {
        let folder = ("crates/a/src/db/mod.rs", "mod tx;\nmod writer;");
        let writer = ("crates/a/src/db/writer.rs", "use super::tx::Tx;\npub struct Writer;");
        for tx in [
            "use super::writer::Writer;",
            "fn f(_: &crate::db::writer::Writer) {}",
            "m!(super::writer::Writer);",
        ] {
            let expected = ["crates/a/src/db/tx.rs:2 tx → writer → tx"];
            let text = format!("// Begun by a Writer.\n{tx}");
            assert_eq!(found(&[folder, writer, ("crates/a/src/db/tx.rs", &text)]), expected, "{tx}");
        }
    }

    #[test]
    fn cycle_of_three_is_reported_from_its_first_name() {
        let files = [
            ("a/src/x.rs", "use crate::y::Y;"),
            ("a/src/y.rs", "use crate::z;"),
            ("a/src/z/mod.rs", "mod deep;"),
            ("a/src/z/deep.rs", "use crate::x::{self, X};"),
        ];
        assert_eq!(found(&files), ["a/src/x.rs:1 x → y → z → x"]);
    }

    #[test]
    fn reexports_are_followed_to_the_module_of_the_item() {
        let root = ("a/src/lib.rs", "mod db;\nmod tx;\nmod writer;\npub use db::Tx;");
        let files = [
            root,
            ("a/src/db/mod.rs", "pub(crate) use crate::tx::Tx;"),
            ("a/src/tx.rs", "use crate::writer;"),
            ("a/src/writer.rs", "use crate::Tx;"),
        ];
        assert_eq!(found(&files), ["a/src/tx.rs:1 tx → writer → tx"]);
    }

    #[test]
    fn use_of_a_parent_is_not_a_cycle() {
        let root = ("a/src/lib.rs", "mod db;\nmod tx;\nuse tx::Tx;\npub struct Root;");
        let files = [
            root,
            ("a/src/tx.rs", "use crate::Root;\nuse super::Root;"),
            ("a/src/db/mod.rs", "mod row;\nuse row::Row;"),
            ("a/src/db/row.rs", "use super::Rows;\nuse crate::tx::Tx;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn tests_other_crates_and_visibility_are_not_counted() {
        let tests = "#[cfg(test)]\nmod tests { use crate::b::B; }\n#[cfg(test)]\nmod b_tests;\npub(in crate::b) struct A;\nuse ::b::B;";
        let files = [
            ("a/src/a.rs", tests),
            ("a/src/a/b_tests.rs", "use crate::b::B;"),
            ("a/src/b.rs", "use crate::a::A;"),
            ("b/src/a.rs", "use crate::b::B;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
