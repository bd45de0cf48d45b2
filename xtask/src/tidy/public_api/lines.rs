//! The lines that an item has in the list, once its types are written by their full paths.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Field, Fields, GenericArgument, Generics, ImplItem, Item, ItemEnum, ItemImpl, ItemStruct,
    ItemTrait, PathArguments, Token, TraitItem, Type, Visibility,
};

pub(super) fn of_item(item: &Item, path: &str) -> Vec<String> {
    match item {
        Item::Const(item) => vec![format!("pub const {path}: {}", text(&item.ty))],
        Item::Static(item) => vec![format!("pub static {path}: {}", text(&item.ty))],
        Item::Type(item) => vec![format!("pub type {path}{} = {}", text(&item.generics), text(&item.ty))],
        Item::Fn(item) => vec![function(&item.attrs, &item.sig, path)],
        Item::Struct(item) => struct_lines(item, path),
        Item::Enum(item) => enum_lines(item, path),
        Item::Trait(item) => trait_lines(item, path),
        _ => Vec::new(),
    }
}

/// The signature, with the full name of the function.
fn function(attrs: &[Attribute], signature: &syn::Signature, path: &str) -> String {
    let name = format!("fn {}", signature.ident);
    let derive = attrs.iter().find(|attr| attr.path().is_ident("proc_macro_derive")).map(text);
    let derive = derive.map_or(String::new(), |derive| format!("{derive} "));
    format!("{derive}pub {}", text(signature).replacen(&name, &format!("fn {path}"), 1))
}

fn struct_lines(item: &ItemStruct, path: &str) -> Vec<String> {
    let fields: Vec<(String, &Field)> = item.fields.iter().enumerate().map(field_name).collect();
    let (public, private): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(_, field)| is_public(&field.vis) && !is_hidden(&field.attrs));
    let rest = if private.is_empty() { "" } else { " { .. }" };
    let mut lines = vec![format!("{}{rest}", head("struct", &item.attrs, path, &item.generics))];
    lines.extend(public.iter().map(|(name, field)| format!("pub {path}.{name}: {}", text(&field.ty))));
    lines.extend(derives(&item.attrs, path));
    lines
}

fn field_name((index, field): (usize, &Field)) -> (String, &Field) {
    (field.ident.as_ref().map_or(index.to_string(), ToString::to_string), field)
}

fn enum_lines(item: &ItemEnum, path: &str) -> Vec<String> {
    let mut lines = vec![head("enum", &item.attrs, path, &item.generics)];
    for variant in item.variants.iter().filter(|variant| !is_hidden(&variant.attrs)) {
        let space = if matches!(variant.fields, Fields::Named(_)) { " " } else { "" };
        let value =
            variant.discriminant.as_ref().map_or(String::new(), |(_, value)| format!(" = {}", text(value)));
        let (non_exhaustive, fields) = (non_exhaustive(&variant.attrs), text(&variant.fields));
        lines.push(format!("{non_exhaustive}{path}::{}{space}{fields}{value}", variant.ident));
    }
    lines.extend(derives(&item.attrs, path));
    lines
}

fn trait_lines(item: &ItemTrait, path: &str) -> Vec<String> {
    let above =
        if item.supertraits.is_empty() { String::new() } else { format!(": {}", text(&item.supertraits)) };
    let generics = format!("{}{above}{}", text(&item.generics), conditions(&item.generics));
    let mut lines = vec![format!("pub trait {path}{generics}")];
    lines.extend(item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(item) if !is_hidden(&item.attrs) => {
            let provided = if item.default.is_some() { " { .. }" } else { "" };
            Some(format!(
                "{}{provided}",
                function(&item.attrs, &item.sig, &format!("{path}::{}", item.sig.ident))
            ))
        }
        TraitItem::Const(item) => Some(format!("pub const {path}::{}: {}", item.ident, text(&item.ty))),
        TraitItem::Type(item) => {
            Some(format!("pub type {path}::{}: {}", text(&item.ident), text(&item.bounds)))
        }
        _ => None,
    }));
    lines
}

/// `path` is that of the type, or of the trait if the type is not one of ours.
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
            Some(format!("pub const {path}::{}: {}", item.ident, text(&item.ty)))
        }
        _ => None,
    });
    public.map(|line| format!("{line}{place}")).collect()
}

fn associated_type(item: &ImplItem) -> Option<String> {
    let ImplItem::Type(item) = item else { return None };
    Some(format!(" {{ type {} = {} }}", item.ident, text(&item.ty)))
}

/// Without the path of a trait that is not ours: whether it is derived, and how it is imported, is all the same.
fn trait_name(path: &syn::Path) -> String {
    let is_ours = path.segments.len() > 1 && path.segments[0].ident.to_string().starts_with("posthaste");
    if is_ours { text(path) } else { path.segments.last().map(text).unwrap_or_default() }
}

/// Other than lifetimes, which every implementation of the type has.
fn has_parameters(of: &Type) -> bool {
    let Type::Path(of) = of else { return true };
    let mut arguments = of.path.segments.iter().filter_map(|segment| match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    });
    arguments
        .any(|arguments| arguments.iter().any(|argument| !matches!(argument, GenericArgument::Lifetime(_))))
}

fn head(kind: &str, attrs: &[Attribute], path: &str, generics: &Generics) -> String {
    format!("{}pub {kind} {path}{}{}", non_exhaustive(attrs), text(generics), conditions(generics))
}

fn non_exhaustive(attrs: &[Attribute]) -> &'static str {
    if has(attrs, "non_exhaustive") { "#[non_exhaustive] " } else { "" }
}

fn conditions(generics: &Generics) -> String {
    generics.where_clause.as_ref().map_or(String::new(), |clause| format!(" {}", text(clause)))
}

fn derives(attrs: &[Attribute], path: &str) -> Vec<String> {
    let derives = attrs.iter().filter(|attr| attr.path().is_ident("derive"));
    let traits = derives.filter_map(|attr| attr.parse_args_with(Traits::parse_terminated).ok()).flatten();
    traits.map(|derived| format!("impl {} for {path}", trait_name(&derived))).collect()
}

type Traits = Punctuated<syn::Path, Token![,]>;

pub(super) fn has(attrs: &[Attribute], name: &str) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident(name))
}

pub(super) fn is_hidden(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("doc") && text(&attr.meta).contains("(hidden)"))
}

pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Code in one line, with spaces where one would write them.
pub(super) fn text(code: &impl ToTokens) -> String {
    const SPACES: &[(&str, &str)] = &[
        (" :: ", "::"),
        (":: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" ;", ";"),
        (" :", ":"),
        ("& ", "&"),
        (" (", "("),
        ("# [", "#["),
        ("' ", "'"),
        ("* ", "*"),
        ("? ", "?"),
        (" !", "!"),
        (",>", ">"),
        (", }", " }"),
        ("->(", "-> ("),
        (",(", ", ("),
        (":(", ": ("),
        ("=(", "= ("),
        ("&(", "& ("),
    ];
    let text = code.to_token_stream().to_string();
    SPACES
        .iter()
        .fold(text, |text, (tokens, written)| text.replace(tokens, written))
        .trim_end_matches(',')
        .to_owned()
}
