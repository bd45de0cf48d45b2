//! Generates the implementation of `TypedEvent` from the parsed attributes.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Result};

use crate::attributes::{FieldMarks, MarkedField, TypeKeys};

/// The whole derive. It uses the types of `proc_macro2`, so that tests can call it outside the compiler.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let marks = FieldMarks::read(input)?;
    let TypeKeys { event_type, aggregate, version, topic } = TypeKeys::read(input)?;

    let aggregate = match aggregate {
        Some(name) => quote!(#name),
        None => quote!(::posthaste::GLOBAL),
    };
    let version = option(version.as_ref());
    let topic = option(topic.as_ref());
    let aggregate_id = read_field(marks.aggregate_id.as_ref());
    let tenant_id = read_field(marks.tenant_id.as_ref());
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();

    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::posthaste::TypedEvent for #name #type_generics #where_clause {
            const TYPE: &'static str = #event_type;
            const AGGREGATE: &'static str = #aggregate;
            const SCHEMA_VERSION: ::core::option::Option<u32> = #version;
            const TOPIC: ::core::option::Option<&'static str> = #topic;

            fn aggregate_id(&self) -> ::core::option::Option<::std::string::String> {
                #aggregate_id
            }

            fn tenant_id(&self) -> ::core::option::Option<::std::string::String> {
                #tenant_id
            }
        }
    })
}

/// The expression `Some(value)` or `None`.
fn option(value: Option<&impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// The expression that reads a marked field. Its span is located at the field's type, so that a missing `Display` is
/// reported there, and resolved at the call site, so that `self` is found even if another macro wrote the struct.
fn read_field(field: Option<&MarkedField>) -> TokenStream {
    let Some(field) = field else {
        return quote!(::core::option::Option::None);
    };
    let MarkedField { member, ty } = field;
    let span = Span::call_site().located_at(ty.span());
    if field.is_option() {
        quote_spanned! {span=>
            ::core::option::Option::as_ref(&self.#member).map(::std::string::ToString::to_string)
        }
    } else {
        quote_spanned! {span=>
            ::core::option::Option::Some(::std::string::ToString::to_string(&self.#member))
        }
    }
}
