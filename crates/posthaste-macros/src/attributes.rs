//! Parses and validates `#[event(…)]` on the type and on its fields.

use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput, Error, Field, Ident, LitInt, LitStr, Member, Result, Token, Type};

/// Limits in characters, those of the columns of the outbox table.
const TYPE_LEN_MAX: usize = 128;
const AGGREGATE_LEN_MAX: usize = 64;

/// The validated keys on the type.
pub(crate) struct TypeKeys {
    pub(crate) event_type: LitStr,
    pub(crate) aggregate: Option<LitStr>,
    pub(crate) version: Option<u32>,
    pub(crate) topic: Option<LitStr>,
}

impl TypeKeys {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let (mut event_type, mut aggregate, mut version, mut topic) = (None, None, None, None);
        for attribute in event_attributes(&input.attrs) {
            attribute.parse_nested_meta(|meta| match key(&meta)?.as_str() {
                "type" => set_once(&mut event_type, &meta, |m| text(m, TYPE_LEN_MAX)),
                "aggregate" => set_once(&mut aggregate, &meta, |m| text(m, AGGREGATE_LEN_MAX)),
                "version" => set_once(&mut version, &meta, number),
                "topic" => set_once(&mut topic, &meta, |m| text(m, usize::MAX)),
                mark @ ("aggregate_id" | "tenant_id") => Err(meta.error(format!(
                    "`{mark}` marks a field: move `#[event({mark})]` to the field that holds it"
                ))),
                other => Err(meta.error(format!(
                    "unknown key `{other}`: a type takes `type`, `aggregate`, `version` and `topic`"
                ))),
            })?;
        }
        let event_type = match event_type {
            Some(given) => given,
            None => type_name(&input.ident)?,
        };
        Ok(Self { event_type, aggregate, version, topic })
    }
}

/// The marked fields, at most one per mark.
#[derive(Default)]
pub(crate) struct FieldMarks {
    pub(crate) aggregate_id: Option<MarkedField>,
    pub(crate) tenant_id: Option<MarkedField>,
}

impl FieldMarks {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        match &input.data {
            Data::Struct(data) => Self::of_fields(data.fields.members().zip(&data.fields)),
            Data::Enum(data) => {
                for variant in &data.variants {
                    refuse_marks(&variant.attrs)?;
                    for field in &variant.fields {
                        refuse_marks(&field.attrs)?;
                    }
                }
                Ok(Self::default())
            }
            Data::Union(data) => {
                Err(Error::new(data.union_token.span, "a union cannot be an event: use a struct or an enum"))
            }
        }
    }

    fn of_fields<'a>(fields: impl Iterator<Item = (Member, &'a Field)>) -> Result<Self> {
        let mut marks = Self::default();
        for (member, field) in fields {
            for attribute in event_attributes(&field.attrs) {
                attribute.parse_nested_meta(|meta| marks.mark(&meta, &member, &field.ty))?;
            }
        }
        Ok(marks)
    }

    fn mark(&mut self, meta: &ParseNestedMeta<'_>, member: &Member, ty: &Type) -> Result<()> {
        let key = key(meta)?;
        let marked = match key.as_str() {
            "aggregate_id" => &mut self.aggregate_id,
            "tenant_id" => &mut self.tenant_id,
            other => {
                return Err(
                    meta.error(format!("unknown key `{other}`: a field takes `aggregate_id` or `tenant_id`"))
                );
            }
        };
        if meta.input.peek(Token![=]) {
            return Err(meta
                .error(format!("`{key}` takes no value, the field is the value: write `#[event({key})]`")));
        }
        if marked.is_some() {
            return Err(meta.error(format!("`{key}` is marked twice: keep the mark on one field")));
        }
        *marked = Some(MarkedField { member: member.clone(), ty: ty.clone() });
        Ok(())
    }
}

/// A marked field, by name or position.
pub(crate) struct MarkedField {
    pub(crate) member: Member,
    pub(crate) ty: Type,
}

impl MarkedField {
    /// Whether the type is written as `Option<…>`. A macro sees only tokens, so a type alias is not recognized.
    pub(crate) fn is_option(&self) -> bool {
        let Type::Path(path) = &self.ty else {
            return false;
        };
        path.path.segments.last().is_some_and(|last| last.ident == "Option")
    }
}

fn event_attributes(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("event"))
}

/// Fails on any `#[event(…)]`: variants of an enum and their fields cannot have marks.
fn refuse_marks(attributes: &[Attribute]) -> Result<()> {
    match event_attributes(attributes).next() {
        None => Ok(()),
        Some(attribute) => Err(Error::new_spanned(
            attribute,
            "an enum takes `#[event(…)]` only on the whole type: \
             remove this, or make the event a struct",
        )),
    }
}

fn key(meta: &ParseNestedMeta<'_>) -> Result<String> {
    Ok(meta.path.require_ident()?.unraw().to_string())
}

fn set_once<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    parse: impl FnOnce(&ParseNestedMeta<'_>) -> Result<T>,
) -> Result<()> {
    if slot.is_some() {
        let key = key(meta)?;
        return Err(meta.error(format!("`{key}` is given twice: keep one")));
    }
    *slot = Some(parse(meta)?);
    Ok(())
}

/// Parses a string value and checks its length.
fn text(meta: &ParseNestedMeta<'_>, len_max: usize) -> Result<LitStr> {
    let literal: LitStr = meta.value()?.parse()?;
    match fault_in(&key(meta)?, &literal.value(), len_max) {
        None => Ok(literal),
        Some(fault) => Err(Error::new(literal.span(), fault)),
    }
}

fn number(meta: &ParseNestedMeta<'_>) -> Result<u32> {
    let literal: LitInt = meta.value()?.parse()?;
    literal.base10_parse().map_err(|_| {
        Error::new(literal.span(), format!("`version` is a whole number from 0 to {}", u32::MAX))
    })
}

/// Default of `type`: the name of the Rust type, without `r#`.
fn type_name(ident: &Ident) -> Result<LitStr> {
    let name = ident.unraw().to_string();
    match fault_in("type", &name, TYPE_LEN_MAX) {
        None => Ok(LitStr::new(&name, ident.span())),
        Some(fault) => {
            Err(Error::new(ident.span(), format!("{fault}; give a shorter one: `#[event(type = \"…\")]`")))
        }
    }
}

/// What is wrong with a value, if anything.
fn fault_in(key: &str, value: &str, len_max: usize) -> Option<String> {
    let len = value.chars().count();
    if len == 0 {
        Some(format!("`{key}` is empty: name it, or leave it out for the default"))
    } else if len > len_max {
        Some(format!("`{key}` has {len} characters, at most {len_max} fit"))
    } else if value.chars().any(char::is_control) {
        Some(format!("`{key}` contains a control character: use printable text"))
    } else {
        None
    }
}
