//! The lines of an item in the list. Its names must already be full paths.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Field, Fields, GenericArgument, Generics, Ident, ImplItem, Item, ItemEnum, ItemImpl,
    ItemStruct, ItemTrait, Meta, PathArguments, Token, TraitItem, Type, Visibility,
};

pub(super) fn of_item(item: &Item, path: &str) -> Vec<String> {
    match item {
        Item::Const(item) => vec![format!("{}: {}", head("const", &item.attrs, path, None), text(&item.ty))],
        Item::Static(item) => {
            vec![format!("{}: {}", head("static", &item.attrs, path, None), text(&item.ty))]
        }
        Item::Type(item) => {
            vec![format!("{} = {}", head("type", &item.attrs, path, Some(&item.generics)), text(&item.ty))]
        }
        Item::Fn(item) => vec![function(&item.attrs, &item.sig, path)],
        Item::Struct(item) => struct_lines(item, path),
        Item::Enum(item) => enum_lines(item, path),
        Item::Trait(item) => trait_lines(item, path),
        _ => Vec::new(),
    }
}

/// The signature with the full path of the function.
fn function(attrs: &[Attribute], signature: &syn::Signature, path: &str) -> String {
    let name = format!("fn {}", signature.ident);
    format!("{}pub {}", marks(attrs), text(signature).replacen(&name, &format!("fn {path}"), 1))
}

fn struct_lines(item: &ItemStruct, path: &str) -> Vec<String> {
    let fields: Vec<(String, &Field)> = item.fields.iter().enumerate().map(field_name).collect();
    let (public, private): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(_, field)| is_public(&field.vis) && !is_hidden(&field.attrs));
    let rest = if private.is_empty() { "" } else { " { .. }" };
    let mut lines = vec![format!("{}{rest}", head("struct", &item.attrs, path, Some(&item.generics)))];
    let line = |(name, field): &(String, &Field)| {
        format!("{}pub {path}.{name}: {}", marks(&field.attrs), text(&field.ty))
    };
    lines.extend(public.iter().map(line));
    lines.extend(from_impls(&item.fields, path));
    lines.extend(derives(&item.attrs, path));
    lines
}

fn field_name((index, field): (usize, &Field)) -> (String, &Field) {
    (field.ident.as_ref().map_or(index.to_string(), ToString::to_string), field)
}

fn enum_lines(item: &ItemEnum, path: &str) -> Vec<String> {
    let mut lines = vec![head("enum", &item.attrs, path, Some(&item.generics))];
    for variant in item.variants.iter().filter(|variant| !is_hidden(&variant.attrs)) {
        let space = if matches!(variant.fields, Fields::Named(_)) { " " } else { "" };
        let value =
            variant.discriminant.as_ref().map_or(String::new(), |(_, value)| format!(" = {}", text(value)));
        let (marks, fields) = (marks(&variant.attrs), text(&variant.fields));
        lines.push(format!("{marks}{path}::{}{space}{fields}{value}", variant.ident));
        lines.extend(from_impls(&variant.fields, path).map(|line| format!("{marks}{line}")));
    }
    lines.extend(derives(&item.attrs, path));
    lines
}

fn trait_lines(item: &ItemTrait, path: &str) -> Vec<String> {
    let above =
        if item.supertraits.is_empty() { String::new() } else { format!(": {}", text(&item.supertraits)) };
    let generics = format!("{}{above}{}", text(&item.generics), conditions(&item.generics));
    let mut lines = vec![format!("{}{generics}", head("trait", &item.attrs, path, None))];
    lines.extend(item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(item) if !is_hidden(&item.attrs) => {
            let provided = if item.default.is_some() { " { .. }" } else { "" };
            Some(format!(
                "{}{provided}",
                function(&item.attrs, &item.sig, &format!("{path}::{}", item.sig.ident))
            ))
        }
        TraitItem::Const(item) => Some(constant(&item.attrs, &item.ident, &item.ty, path)),
        TraitItem::Type(item) => {
            Some(format!("{}pub type {path}::{}: {}", marks(&item.attrs), item.ident, text(&item.bounds)))
        }
        _ => None,
    }));
    lines
}

/// `path` is the path of the type, or of the trait if the type belongs to another crate.
pub(super) fn of_impl(item: &ItemImpl, path: &str) -> Vec<String> {
    let (generics, conditions) = (text(&item.generics), conditions(&item.generics));
    if let Some((of, _)) = &item.trait_ {
        let types: String = item.items.iter().filter_map(associated_type).collect();
        return vec![format!(
            "impl{generics} {} for {}{conditions}{types}",
            trait_name(of),
            text(&item.self_ty)
        )];
    }
    let place = match has_parameters(&item.self_ty) {
        true => format!(" in impl{generics} {}{conditions}", text(&item.self_ty)),
        false => String::new(),
    };
    let public = item.items.iter().filter_map(|item| match item {
        ImplItem::Fn(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
            Some(function(&item.attrs, &item.sig, &format!("{path}::{}", item.sig.ident)))
        }
        ImplItem::Const(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
            Some(constant(&item.attrs, &item.ident, &item.ty, path))
        }
        _ => None,
    });
    public.map(|line| format!("{line}{place}")).collect()
}

fn associated_type(item: &ImplItem) -> Option<String> {
    let ImplItem::Type(item) = item else { return None };
    Some(format!(" {{ type {} = {} }}", item.ident, text(&item.ty)))
}

/// The name of a trait, without its path if it belongs to another crate: a derived and a written implementation look
/// the same.
fn trait_name(path: &syn::Path) -> String {
    let is_ours = path.segments.len() > 1 && path.segments[0].ident.to_string().starts_with("posthaste");
    if is_ours { text(path) } else { path.segments.last().map(text).unwrap_or_default() }
}

/// Whether a type has arguments other than lifetimes, so that the list must say which implementation a method is in.
fn has_parameters(of: &Type) -> bool {
    let Type::Path(of) = of else { return true };
    let mut arguments = of.path.segments.iter().filter_map(|segment| match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    });
    arguments
        .any(|arguments| arguments.iter().any(|argument| !matches!(argument, GenericArgument::Lifetime(_))))
}

fn constant(attrs: &[Attribute], name: &Ident, of: &Type, path: &str) -> String {
    format!("{}: {}", head("const", attrs, &format!("{path}::{name}"), None), text(of))
}

fn head(kind: &str, attrs: &[Attribute], path: &str, generics: Option<&Generics>) -> String {
    let generics = generics.map_or(String::new(), |generics| text(generics) + &conditions(generics));
    format!("{}pub {kind} {path}{generics}", marks(attrs))
}

/// The attributes that the list contains, in this order, and whether with their arguments.
const MARKS: &[(&str, bool)] = &[
    ("cfg", true),
    ("async_trait", false),
    ("deprecated", false),
    ("from", false),
    ("must_use", false),
    ("non_exhaustive", false),
    ("proc_macro_derive", true),
];

pub(super) fn is_mark(attr: &Attribute) -> bool {
    MARKS.iter().any(|(name, _)| is_named(attr, name))
}

fn is_named(attr: &Attribute, name: &str) -> bool {
    attr.path().segments.last().is_some_and(|last| last.ident == name)
}

fn marks(attrs: &[Attribute]) -> String {
    let named = |(name, is_whole): &(&'static str, bool)| {
        let (name, is_whole) = (*name, *is_whole);
        let found = attrs.iter().filter(move |attr| is_named(attr, name));
        found.map(move |attr| if is_whole { format!("{} ", text(attr)) } else { format!("#[{name}] ") })
    };
    MARKS.iter().flat_map(named).collect()
}

/// The `#[cfg]` attributes.
pub(super) fn gates(attrs: &[Attribute]) -> Vec<String> {
    // The inner attributes of a file become outer ones.
    let gates = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    gates.map(|attr| format!("#[{}]", text(&attr.meta))).collect()
}

fn conditions(generics: &Generics) -> String {
    generics.where_clause.as_ref().map_or(String::new(), |clause| format!(" {}", text(clause)))
}

/// The implementations of `From` that thiserror derives.
fn from_impls(fields: &Fields, path: &str) -> impl Iterator<Item = String> {
    let from = fields.iter().filter(|field| has(&field.attrs, "from"));
    from.map(move |field| format!("impl From<{}> for {path}", text(&field.ty)))
}

fn derives(attrs: &[Attribute], path: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (gate, meta) in attrs.iter().flat_map(conditional) {
        let traits = meta.require_list().and_then(|list| list.parse_args_with(Traits::parse_terminated));
        if meta.path().is_ident("derive") {
            lines.extend(
                traits.iter().flatten().map(|of| format!("{gate}impl {} for {path}", trait_name(of))),
            );
        }
    }
    lines
}

type Traits = Punctuated<syn::Path, Token![,]>;
type Metas = Punctuated<Meta, Token![,]>;

/// The attribute without a condition, or the attributes inside a `cfg_attr` with its condition.
fn conditional(attr: &Attribute) -> Vec<(String, Meta)> {
    if !attr.path().is_ident("cfg_attr") {
        return vec![(String::new(), attr.meta.clone())];
    }
    let mut metas = attr.parse_args_with(Metas::parse_terminated).into_iter().flatten();
    let gate = metas.next().map_or(String::new(), |condition| format!("#[cfg({})] ", text(&condition)));
    metas.map(|meta| (gate.clone(), meta)).collect()
}

pub(super) fn has(attrs: &[Attribute], name: &str) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident(name))
}

pub(super) fn is_hidden(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("doc") && text(&attr.meta).contains("(hidden)"))
}

pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Code on one line with the spaces that rustfmt writes.
pub(super) fn text(code: &impl ToTokens) -> String {
    // The spaces around printed tokens, and those of rustfmt.
    const SPACES: &[&str] = &[
        " :: |::", ":: |::", " <|<", "< |<", " >|>", " ,|,", " ;|;", " :|:", "& |&", " (|(", "# [|#[",
        "' |'", "* |*", "? |?", " !|!", ",>|>", ", }| }", "->(|-> (", ",(|, (", ":(|: (", "=(|= (", "&(|& (",
    ];
    let text = code.to_token_stream().to_string();
    let spaces = SPACES.iter().filter_map(|spaces| spaces.split_once('|'));
    let text = spaces.fold(text, |text, (tokens, written)| text.replace(tokens, written));
    text.trim_end_matches(',').to_owned()
}
