//! Operations on parsed TOML that keep the place of every part in the source texts.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::source_text::Span;

/// A value and its place.
pub(super) type Node<'i> = Spanned<DeValue<'i>>;

/// Moves all places by an offset: from those in one text to those in the concatenation of all texts.
pub(super) fn shifted<'i>(node: Node<'i>, by: usize) -> Node<'i> {
    let moved = |span: Span| span.start + by..span.end + by;
    let span = moved(node.span());
    let value = match node.into_inner() {
        DeValue::Table(table) => {
            let entries = table
                .into_iter()
                .map(|(key, value)| (Spanned::new(moved(key.span()), key.into_inner()), shifted(value, by)));
            DeValue::Table(entries.collect())
        }
        DeValue::Array(values) => {
            DeValue::Array(values.into_iter().map(|value| shifted(value, by)).collect::<DeArray<'i>>())
        }
        value => value,
    };
    Spanned::new(span, value)
}

/// A text with this place.
pub(super) fn text<'i>(text: impl Into<Cow<'i, str>>, span: &Span) -> Node<'i> {
    Spanned::new(span.clone(), DeValue::String(text.into()))
}

/// Inserts a value, or replaces the one that is there. The key gets the place of the value.
pub(super) fn put<'i>(table: &mut DeTable<'i>, name: impl Into<Cow<'i, str>>, value: Node<'i>) {
    let name = name.into();
    // `insert` keeps an equal key that exists already, with its old place.
    table.remove(&*name);
    table.insert(Spanned::new(value.span(), name), value);
}

/// The value of a key. If there is none, a new table with the place `span`.
pub(super) fn entry<'t, 'i>(
    table: &'t mut DeTable<'i>,
    name: impl Into<Cow<'i, str>>,
    span: &Span,
) -> &'t mut Node<'i> {
    let empty = || Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
    table.entry(Spanned::new(span.clone(), name.into())).or_insert_with(empty)
}

/// Merges `over` into `base`: tables are merged, and other values of `over` replace those of `base`.
pub(super) fn overlay<'i>(base: &mut DeTable<'i>, over: DeTable<'i>) {
    for (key, value) in over {
        let below = base.remove(&**key.get_ref());
        let span = value.span();
        let value = match (below.map(Spanned::into_inner), value.into_inner()) {
            (Some(DeValue::Table(mut below)), DeValue::Table(above)) => {
                overlay(&mut below, above);
                DeValue::Table(below)
            }
            (_, above) => above,
        };
        base.insert(key, Spanned::new(span, value));
    }
}

/// The place of a setting such as `poller.batch`, or else of the innermost table around it that exists.
pub(super) fn place(table: &DeTable<'_>, setting: &str, around: &Span) -> Span {
    let (first, rest) = setting.split_once('.').unwrap_or((setting, ""));
    let Some(value) = table.get(first) else { return around.clone() };
    match value.get_ref() {
        DeValue::Table(table) if !rest.is_empty() => place(table, rest, &value.span()),
        _ => value.span(),
    }
}

/// Removes the innermost value whose place, or whose key's place, contains this range; returns its path.
pub(super) fn take_out(table: &mut DeTable<'_>, span: &Span) -> Option<String> {
    for (key, value) in table.iter_mut() {
        if let DeValue::Table(inner) = value.get_mut()
            && let Some(path) = take_out(inner, span)
        {
            return Some(format!("{}.{path}", key.get_ref()));
        }
    }
    let holds = |place: Span| place.start <= span.start && span.end <= place.end;
    let (key, _) = table.iter().find(|(key, value)| holds(key.span()) || holds(value.span()))?;
    let name = key.get_ref().clone().into_owned();
    table.remove(name.as_str());
    Some(name)
}
