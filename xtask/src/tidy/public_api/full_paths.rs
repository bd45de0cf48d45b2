//! Replaces the names in an item by their full public paths, as users write them.

use proc_macro2::Span;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, Generics, Ident, Item, PatIdent, PathSegment, Receiver, Signature, TypePath};

use super::library::{Library, PublicPaths, Target};
use super::lines;

/// A copy of an item of `module` that depends neither on the module's imports nor on a private module around the item.
pub(super) fn write(library: &Library<'_>, public: &PublicPaths, module: &[String], item: &Item) -> Item {
    let mut item = item.clone();
    FullPaths { library, public, module }.visit_item_mut(&mut item);
    item
}

struct FullPaths<'l> {
    library: &'l Library<'l>,
    public: &'l PublicPaths,
    module: &'l [String],
}

impl FullPaths<'_> {
    fn full(&self, path: &syn::Path) -> Option<Vec<String>> {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        match self.library.resolve(self.module, &names) {
            Target::External(path) => Some(path),
            Target::Module(_) => None,
            Target::Item(module, name) => {
                let path = self.public.get(&(module, name))?.first()?;
                Some(path.path.split("::").map(str::to_owned).collect())
            }
        }
    }
}

impl VisitMut for FullPaths<'_> {
    fn visit_path_mut(&mut self, path: &mut syn::Path) {
        if path.leading_colon.is_none()
            && let (Some(full), Some(last)) = (self.full(path), path.segments.last())
        {
            let arguments = last.arguments.clone();
            let segment = |name: &String| PathSegment::from(Ident::new(name, Span::call_site()));
            path.segments = full.iter().map(segment).collect();
            if let Some(last) = path.segments.last_mut() {
                last.arguments = arguments;
            }
        }
        visit_mut::visit_path_mut(self, path);
    }

    /// Bodies are not part of the API.
    fn visit_block_mut(&mut self, _: &mut Block) {}

    /// Skips `<T as Trait>::Name`: syn stores the number of its segments.
    fn visit_type_path_mut(&mut self, path: &mut TypePath) {
        if path.qself.is_none() {
            visit_mut::visit_type_path_mut(self, path);
        }
    }

    fn visit_attributes_mut(&mut self, attrs: &mut Vec<Attribute>) {
        attrs.retain(|attr| {
            // Keeps `doc(hidden)`, not doc comments.
            let is_doc = attr.path().is_ident("doc") && attr.meta.require_list().is_ok();
            let has_derive = attr.path().is_ident("cfg_attr") && lines::text(&attr.meta).contains("derive(");
            is_doc || has_derive || attr.path().is_ident("derive") || lines::is_mark(attr)
        });
    }

    /// rustfmt writes a trailing comma only if the line is long.
    fn visit_signature_mut(&mut self, signature: &mut Signature) {
        signature.inputs.pop_punct();
        visit_mut::visit_signature_mut(self, signature);
    }

    fn visit_generics_mut(&mut self, generics: &mut Generics) {
        generics.params.pop_punct();
        visit_mut::visit_generics_mut(self, generics);
    }

    /// `mut` before an argument is not part of the API.
    fn visit_pat_ident_mut(&mut self, argument: &mut PatIdent) {
        argument.mutability = None;
    }

    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        receiver.mutability = None;
        visit_mut::visit_receiver_mut(self, receiver);
    }
}
