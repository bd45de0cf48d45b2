//! The list of the public API of a library: one line for each item, field, variant, method and implementation.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Item, ItemImpl};

use super::library::{Library, PublicPath, PublicPaths, Target, attributes, is_called, named};
use super::lines::{gates, has, is_hidden, is_public, text};
use super::{full_paths, lines};
use crate::tidy::source::{Import, Path, imports};

pub(super) fn of(library: &Library<'_>) -> String {
    let mut listing = Listing { library, public: PublicPaths::new(), lines: BTreeSet::new() };
    listing.enter(&[], &library.name, &[]);
    for ((module, name), paths) in listing.public.clone() {
        let Some((PublicPath { path, gates: of_path }, others)) = paths.split_first() else { continue };
        for item in library.items(&module).iter().filter(|item| is_called(item, &name)) {
            let gates = [&**of_path, &library.gates(&module), &gates(attributes(item))].concat();
            let item = full_paths::write(library, &listing.public, &module, item);
            listing.add(path, &gates, lines::of_item(&item, path));
        }
        for PublicPath { path: other, gates } in others {
            listing.add(other, gates, [format!("pub use {other} = {path}")]);
        }
    }
    for (module, items) in &library.modules {
        items.iter().for_each(|item| listing.add_from_anywhere(module, item));
    }
    listing.lines.iter().map(|(_, line)| format!("{line}\n")).collect()
}

struct Listing<'l> {
    library: &'l Library<'l>,
    public: PublicPaths,
    /// Each line after the path that it is sorted by.
    lines: BTreeSet<(String, String)>,
}

impl Listing<'_> {
    /// Finds the public items of a module whose public path is `public`, and which has the gates `of_module`.
    fn enter(&mut self, module: &[String], public: &str, of_module: &[String]) {
        for item in self.library.items(module).iter().filter(|item| !is_hidden(attributes(item))) {
            let gates = [of_module, &gates(attributes(item))].concat();
            match item {
                Item::Use(item) if is_public(&item.vis) => {
                    let imports = imports(&item.tree);
                    imports.iter().for_each(|import| self.enter_import(module, import, public, &gates));
                }
                Item::Mod(item) if is_public(&item.vis) => {
                    let path = format!("{public}::{}", item.ident);
                    self.add(&path, &gates, [format!("pub mod {path}")]);
                    self.enter(&[module, &[item.ident.to_string()]].concat(), &path, &gates);
                }
                item => {
                    if let Some((name, _)) = named(item).filter(|(_, visibility)| is_public(visibility)) {
                        self.offer(module.to_vec(), name.to_string(), format!("{public}::{name}"), of_module);
                    }
                }
            }
        }
    }

    fn enter_import(&mut self, module: &[String], import: &Import, public: &str, gates: &[String]) {
        let path = import.name.as_ref().map_or(public.to_owned(), |name| format!("{public}::{name}"));
        match self.library.resolve(module, &import.path) {
            Target::Module(module) => self.enter(&module, &path, gates),
            Target::Item(module, name) => self.offer(module, name, path, gates),
            Target::External(target) => {
                self.add(&path, gates, [format!("pub use {path} = {}", target.join("::"))]);
            }
        }
    }

    fn offer(&mut self, module: Path, name: String, path: String, gates: &[String]) {
        let paths = self.public.entry((module, name)).or_default();
        let path = PublicPath { path, gates: gates.to_vec() };
        if !paths.contains(&path) {
            paths.push(path);
            let length = |path: &str| path.matches("::").count();
            paths.sort_by_key(|PublicPath { path, gates }| (!gates.is_empty(), length(path), path.clone()));
        }
    }

    /// Adds lines. Puts the `#[cfg]` attributes in `gates` before each line that does not already contain them.
    fn add(&mut self, path: &str, gates: &[String], lines: impl IntoIterator<Item = String>) {
        let add_gate = |line: String, gate| if line.contains(gate) { line } else { format!("{gate} {line}") };
        let gated = lines.into_iter().map(|line| gates.iter().rev().fold(line, add_gate));
        self.lines.extend(gated.map(|line| (path.to_owned(), line)));
    }

    /// Adds macros and implementations, which are public also in a private module.
    fn add_from_anywhere(&mut self, module: &[String], item: &Item) {
        let gates = [self.library.gates(module), gates(attributes(item))].concat();
        match item {
            Item::Macro(item) if has(&item.attrs, "macro_export") && !is_hidden(&item.attrs) => {
                let path = format!("{}::{}", self.library.name, text(&item.ident));
                self.add(&path, &gates, [format!("pub macro {path}!")]);
            }
            Item::Impl(implementation) => {
                if let Some(path) = self.place_of(module, implementation)
                    && let Item::Impl(item) = full_paths::write(self.library, &self.public, module, item)
                {
                    self.add(&path, &gates, lines::of_impl(&item, &path));
                }
            }
            _ => {}
        }
    }

    /// The public path of the type, or of the trait if the type belongs to another crate. `None` if one of them is
    /// private.
    fn place_of(&self, module: &[String], item: &ItemImpl) -> Option<String> {
        let mut paths = Paths::default();
        paths.visit_type(&item.self_ty);
        let of_type = self.place(module, paths);
        let mut paths = Paths::default();
        item.trait_.iter().for_each(|(of, _)| paths.visit_path(of));
        let of_trait = self.place(module, paths);
        match (of_type, of_trait) {
            (Place::Private, _) | (_, Place::Private) | (Place::Elsewhere, Place::Elsewhere) => None,
            (Place::Public(path), _) | (Place::Elsewhere, Place::Public(path)) => Some(path),
        }
    }

    /// The place of the first item of this library among these paths.
    fn place(&self, module: &[String], paths: Paths) -> Place {
        let mut items = paths.0.iter().filter_map(|path| match self.library.resolve(module, path) {
            Target::Item(module, name) => Some((module, name)),
            _ => None,
        });
        let Some(item) = items.next() else { return Place::Elsewhere };
        let paths = self.public.get(&item);
        paths.and_then(|paths| paths.first()).map_or(Place::Private, |path| Place::Public(path.path.clone()))
    }
}

/// The paths in a type or a trait, outer ones before inner ones.
#[derive(Default)]
struct Paths(Vec<Path>);

impl<'a> Visit<'a> for Paths {
    fn visit_path(&mut self, path: &'a syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// The place of the type or the trait of an implementation.
enum Place {
    Public(String),
    Private,
    /// Another crate, or the language.
    Elsewhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of a library with these files, such as `lib`, `a` and `a/b`.
    fn listed(files: &[(&str, &str)]) -> Vec<String> {
        let parsed = files.iter().map(|(file, code)| (file, syn::parse_file(code).unwrap()));
        let parsed: Vec<_> = parsed.collect();
        let mut library = Library::new("posthaste-x");
        for (file, code) in &parsed {
            let module: Path = file.split('/').filter(|name| *name != "lib").map(str::to_owned).collect();
            library.add(&module, &code.items, &code.attrs);
        }
        of(&library).lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn assert_listed(code: &str, expected: &[&str]) {
        let expected: Vec<String> =
            expected.iter().map(|line| line.replace("x::", "posthaste_x::")).collect();
        assert_eq!(listed(&[("lib", code)]), expected);
    }

    #[test]
    fn only_public_items_are_listed() {
        let code = "pub fn f() {} fn g() {} pub(crate) fn h() {} #[doc(hidden)] pub fn i() {} \
                    mod a { pub fn j() {} } pub mod b { pub const K: u8 = 1; } #[cfg(test)] pub fn l() {}";
        assert_listed(code, &["pub mod x::b", "pub const x::b::K: u8", "pub fn x::f()"]);
    }

    #[test]
    fn signature_does_not_depend_on_imports_or_layout() {
        let code = "use std::fmt::{self, Write as Out};\n\
                    pub async fn f<'a, T: Out + ?Sized>(mut w: &'a mut T, y: [fmt::Alignment; 2],) \
                    -> (u8, Box<dyn Fn(&str) -> u8>) where T: Send { todo() }";
        let expected = "pub async fn x::f<'a, T: std::fmt::Write + ?Sized>(w: &'a mut T, y: [std::fmt::Alignment; 2]) \
                        -> (u8, Box<dyn Fn(&str) -> u8>) where T: Send";
        assert_listed(code, &[expected]);
    }

    #[test]
    fn field_is_listed_once_it_is_public() {
        let private = "pub struct S { pub a: u8, b: u8 } #[non_exhaustive] pub struct T(pub u8);";
        let of_t = ["#[non_exhaustive] pub struct x::T", "pub x::T.0: u8"];
        assert_listed(private, &[&["pub x::S.a: u8", "pub struct x::S { .. }"], &of_t[..]].concat());
        let public = private.replace(" b:", " pub b:");
        assert_listed(
            &public,
            &[&["pub x::S.a: u8", "pub x::S.b: u8", "pub struct x::S"], &of_t[..]].concat(),
        );
    }

    #[test]
    fn variants_are_listed_with_their_fields() {
        let code = "#[derive(Clone, std::fmt::Debug)] \
                    pub enum E { A, B(u8, u8), C { y: u8, }, D = 4, #[doc(hidden)] F }";
        let variants = ["x::E::A", "x::E::B(u8, u8)", "x::E::C { y: u8 }", "x::E::D = 4"];
        let derived = ["impl Clone for x::E", "impl Debug for x::E"];
        assert_listed(code, &[&derived[..], &variants, &["pub enum x::E"]].concat());
    }

    #[test]
    fn trait_shows_what_has_to_be_implemented() {
        let code =
            "pub trait T: Send { type Out: Clone; const N: u8; fn f(&self); fn g(&self) { self.f() } }";
        let expected = [
            "pub const x::T::N: u8",
            "pub fn x::T::f(&self)",
            "pub fn x::T::g(&self) { .. }",
            "pub trait x::T: Send",
            "pub type x::T::Out: Clone",
        ];
        assert_listed(code, &expected);
    }

    #[test]
    fn implementations_are_found_in_private_modules() {
        let code = "mod sealed { pub trait Sealed {} } pub struct S<T>(T); pub trait Ours {} struct Hidden; \
                    mod a { use crate::{Hidden, Ours, S}; use super::sealed::Sealed; \
                    impl<T: Copy> S<T> { pub fn new(t: T) -> Self { S(t) } fn private() {} } \
                    impl<T> Iterator for S<T> { type Item = T; } impl Ours for Vec<u8> {} \
                    impl<T> Sealed for S<T> {} impl Ours for Hidden {} impl Clone for Hidden {} }";
        let expected = [
            "impl x::Ours for Vec<u8>",
            "pub trait x::Ours",
            "impl<T> Iterator for x::S<T> { type Item = T }",
            "pub fn x::S::new(t: T) -> Self in impl<T: Copy> x::S<T>",
            "pub struct x::S<T> { .. }",
        ];
        assert_listed(code, &expected);
    }

    #[test]
    fn reexports_are_followed_to_the_shortest_path() {
        let files = [
            ("lib", "pub mod a; mod c; pub use a::b::{S, f as g}; pub use c::*; pub use other::Thing;"),
            ("a", "pub mod b;"),
            ("a/b", "pub struct S; pub fn f(_: &S) {}"),
            ("c", "pub use crate::a::b::S as T; pub struct U(pub super::a::b::S);"),
        ];
        let expected = [
            "pub struct x::S",
            "pub use x::T = x::S",
            "pub use x::Thing = other::Thing",
            "pub x::U.0: x::S",
            "pub struct x::U",
            "pub mod x::a",
            "pub mod x::a::b",
            "pub use x::a::b::S = x::S",
            "pub use x::a::b::f = x::g",
            "pub fn x::g(_: &x::S)",
        ];
        let lines: Vec<String> = listed(&files).iter().map(|line| line.replace("posthaste_x", "x")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn features_are_listed_before_what_needs_them() {
        let files = [
            (
                "lib",
                "#[cfg(feature = \"a\")] pub mod a; #[cfg(feature = \"b\")] mod b; #[cfg(feature = \"b\")] pub use b::T; \
                     #[cfg(unix)] pub fn f(x: u8) {} #[cfg(not(unix))] pub fn f() {}",
            ),
            (
                "a",
                "pub struct S { #[cfg(feature = \"c\")] pub x: u8 } #[cfg(feature = \"d\")] impl From<S> for String {}",
            ),
            (
                "b",
                "#![cfg(unix)] #[cfg_attr(feature = \"serde\", derive(serde::Serialize), serde(default))] pub struct T;",
            ),
        ];
        let expected = [
            "#[cfg(feature = b)] #[cfg(unix)] #[cfg(feature = serde)] impl Serialize for x::T",
            "#[cfg(feature = b)] #[cfg(unix)] pub struct x::T",
            "#[cfg(feature = a)] pub mod x::a",
            "#[cfg(feature = a)] #[cfg(feature = c)] pub x::a::S.x: u8",
            "#[cfg(feature = a)] #[cfg(feature = d)] impl From<x::a::S> for String",
            "#[cfg(feature = a)] pub struct x::a::S",
            "#[cfg(not(unix))] pub fn x::f()",
            "#[cfg(unix)] pub fn x::f(x: u8)",
        ];
        let lines = listed(&files);
        let lines: Vec<String> =
            lines.iter().map(|line| line.replace("posthaste_x", "x").replace('"', "")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn path_without_a_feature_comes_before_a_shorter_one_with_it() {
        let code = "pub mod a { pub struct S; } #[cfg(unix)] pub use a::S;";
        assert_listed(code, &["#[cfg(unix)] pub use x::S = x::a::S", "pub mod x::a", "pub struct x::a::S"]);
    }

    #[test]
    fn from_of_thiserror_is_listed() {
        let code = "pub enum E<T> { A(#[from] std::io::Error), #[cfg(unix)] B { #[from] source: Vec<T> } } \
                    pub struct S(#[from] std::fmt::Error);";
        let expected = [
            "#[cfg(unix)] impl From<Vec<T>> for x::E",
            "#[cfg(unix)] x::E::B { #[from] source: Vec<T> }",
            "impl From<std::io::Error> for x::E",
            "x::E::A(#[from] std::io::Error)",
            "pub enum x::E<T>",
            "impl From<std::fmt::Error> for x::S",
            "pub struct x::S { .. }",
        ];
        assert_listed(code, &expected);
    }

    #[test]
    fn attributes_that_callers_notice_are_listed() {
        let code = "#[must_use = \"do\"] pub fn f() {} #[deprecated(since = \"1\")] pub const K: u8 = 1; \
                    #[async_trait::async_trait] pub trait T { #[must_use] fn g(&self); } \
                    #[must_use] #[non_exhaustive] #[inline] pub struct S;";
        let expected = [
            "#[deprecated] pub const x::K: u8",
            "#[must_use] #[non_exhaustive] pub struct x::S",
            "#[async_trait] pub trait x::T",
            "#[must_use] pub fn x::T::g(&self)",
            "#[must_use] pub fn x::f()",
        ];
        assert_listed(code, &expected);
    }

    #[test]
    fn foreign_trait_for_a_foreign_type_is_listed_with_the_type_that_it_names() {
        let code = "pub struct S; struct Hidden; impl From<S> for std::io::Error {} impl From<Hidden> for u8 {} \
                    impl<'a> IntoIterator for &'a S {} impl From<u8> for std::string::String {}";
        let expected =
            ["impl From<x::S> for std::io::Error", "impl<'a> IntoIterator for &'a x::S", "pub struct x::S"];
        assert_listed(code, &expected);
    }

    #[test]
    fn exported_macros_are_listed() {
        let code = "mod a { #[macro_export] macro_rules! m { () => {} } macro_rules! n { () => {} } } \
                    #[proc_macro_derive(D)] pub fn d(input: TokenStream) -> TokenStream { input }";
        let expected =
            ["#[proc_macro_derive(D)] pub fn x::d(input: TokenStream) -> TokenStream", "pub macro x::m!"];
        assert_listed(code, &expected);
    }
}
