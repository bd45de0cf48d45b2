//! The list of what a library offers: one line for each item, field, variant, method and implementation.

use std::collections::BTreeSet;

use syn::{Item, ItemImpl, Type};

use super::library::{Library, PublicPaths, Target, attributes, is_called, named};
use super::lines::{has, is_hidden, is_public, text};
use super::{full_paths, lines};
use crate::tidy::source::{Import, Path, imports};

pub(super) fn of(library: &Library) -> String {
    let mut listing = Listing { library, public: PublicPaths::new(), lines: BTreeSet::new() };
    listing.enter(&[], &library.name);
    for ((module, name), paths) in listing.public.clone() {
        let Some((path, others)) = paths.split_first() else { continue };
        for item in library.items(&module).iter().filter(|item| is_called(item, &name)) {
            let item = full_paths::write(library, &listing.public, &module, item);
            listing.add(path, lines::of_item(&item, path));
        }
        others.iter().for_each(|other| listing.add(other, [format!("pub use {other} = {path}")]));
    }
    for (module, items) in &library.modules {
        items.iter().for_each(|item| listing.add_from_anywhere(module, item));
    }
    listing.lines.iter().map(|(_, line)| format!("{line}\n")).collect()
}

struct Listing<'l> {
    library: &'l Library,
    public: PublicPaths,
    /// With the path that they are sorted by.
    lines: BTreeSet<(String, String)>,
}

impl Listing<'_> {
    /// Finds what users reach in a module that they know as `public`.
    fn enter(&mut self, module: &[String], public: &str) {
        for item in self.library.items(module).iter().filter(|item| !is_hidden(attributes(item))) {
            match item {
                Item::Use(item) if is_public(&item.vis) => {
                    imports(&item.tree).iter().for_each(|import| self.enter_import(module, import, public));
                }
                Item::Mod(item) if is_public(&item.vis) => {
                    let path = format!("{public}::{}", item.ident);
                    self.add(&path, [format!("pub mod {path}")]);
                    self.enter(&[module, &[item.ident.to_string()]].concat(), &path);
                }
                item => {
                    if let Some((name, _)) = named(item).filter(|(_, visibility)| is_public(visibility)) {
                        self.offer(module.to_vec(), name.to_string(), format!("{public}::{name}"));
                    }
                }
            }
        }
    }

    fn enter_import(&mut self, module: &[String], import: &Import, public: &str) {
        let path = import.name.as_ref().map_or(public.to_owned(), |name| format!("{public}::{name}"));
        match self.library.resolve(module, &import.path) {
            Target::Module(module) => self.enter(&module, &path),
            Target::Item(module, name) => self.offer(module, name, path),
            Target::External(target) => self.add(&path, [format!("pub use {path} = {}", target.join("::"))]),
        }
    }

    fn offer(&mut self, module: Path, name: String, path: String) {
        let paths = self.public.entry((module, name)).or_default();
        if !paths.contains(&path) {
            paths.push(path);
            paths.sort_by_key(|path| (path.matches("::").count(), path.clone()));
        }
    }

    fn add(&mut self, path: &str, lines: impl IntoIterator<Item = String>) {
        self.lines.extend(lines.into_iter().map(|line| (path.to_owned(), line)));
    }

    /// What belongs to the crate or to an item that users reach, wherever it stands.
    fn add_from_anywhere(&mut self, module: &[String], item: &Item) {
        match item {
            Item::Macro(item) if has(&item.attrs, "macro_export") && !is_hidden(&item.attrs) => {
                let path = format!("{}::{}", self.library.name, text(&item.ident));
                self.add(&path, [format!("pub macro {path}!")]);
            }
            Item::Impl(implementation) => {
                if let Some(path) = self.place_of(module, implementation)
                    && let Item::Impl(item) = full_paths::write(self.library, &self.public, module, item)
                {
                    self.add(&path, lines::of_impl(&item, &path));
                }
            }
            _ => {}
        }
    }

    /// The public path of the type, or of the trait if the type is not one of ours. `None` if one of them is private.
    fn place_of(&self, module: &[String], item: &ItemImpl) -> Option<String> {
        let of_type =
            if let Type::Path(of) = &*item.self_ty { self.place(module, &of.path) } else { Place::Elsewhere };
        let of_trait = item.trait_.as_ref().map_or(Place::Elsewhere, |(of, _)| self.place(module, of));
        match (of_type, of_trait) {
            (Place::Private, _) | (_, Place::Private) | (Place::Elsewhere, Place::Elsewhere) => None,
            (Place::Public(path), _) | (Place::Elsewhere, Place::Public(path)) => Some(path),
        }
    }

    fn place(&self, module: &[String], path: &syn::Path) -> Place {
        let names: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let Target::Item(module, name) = self.library.resolve(module, &names) else {
            return Place::Elsewhere;
        };
        let paths = self.public.get(&(module, name));
        paths.and_then(|paths| paths.first()).map_or(Place::Private, |path| Place::Public(path.clone()))
    }
}

/// Where a type or a trait of an implementation is.
enum Place {
    Public(String),
    Private,
    /// In another crate, or in the language.
    Elsewhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines for a library of these files, whose names are `lib`, `a` and `a/b`.
    fn listed(files: &[(&str, &str)]) -> Vec<String> {
        let mut library = Library::new("posthaste-x");
        for (file, code) in files {
            let module = file.split('/').filter(|name| *name != "lib").map(str::to_owned).collect();
            library.add(module, syn::parse_file(code).unwrap().items);
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
    fn only_what_users_reach_is_listed() {
        let code = "pub fn f() {} fn g() {} pub(crate) fn h() {} #[doc(hidden)] pub fn i() {} \
                    mod a { pub fn j() {} } pub mod b { pub const K: u8 = 1; } #[cfg(test)] pub fn l() {}";
        assert_listed(code, &["pub mod x::b", "pub const x::b::K: u8", "pub fn x::f()"]);
    }

    #[test]
    fn signature_is_written_in_one_way() {
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
    fn trait_says_what_has_to_be_implemented() {
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
    fn macros_are_listed_where_they_are_exported() {
        let code = "mod a { #[macro_export] macro_rules! m { () => {} } macro_rules! n { () => {} } } \
                    #[proc_macro_derive(D)] pub fn d(input: TokenStream) -> TokenStream { input }";
        let expected =
            ["#[proc_macro_derive(D)] pub fn x::d(input: TokenStream) -> TokenStream", "pub macro x::m!"];
        assert_listed(code, &expected);
    }
}
