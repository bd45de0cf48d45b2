//! The generated code, and the errors for invalid input.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::expand::expand;

fn parse(source: &str) -> DeriveInput {
    syn::parse_str(source).expect("the test's own source parses")
}

#[track_caller]
fn check(source: &str, expected: &TokenStream) {
    let written = expand(&parse(source)).expect("the derive accepts this");
    assert_eq!(written.to_string(), expected.to_string());
}

/// The text of one generated function after its name.
fn body_of(source: &str, function: &str) -> String {
    let written = expand(&parse(source)).expect("the derive accepts this");
    let written = written.to_string();
    let (_, rest) = written.split_once(&format!("fn {function} ")).expect("the function is written");
    let end = rest.find(" fn ").unwrap_or(rest.len());
    rest[..end].trim_end_matches([' ', '}']).to_owned()
}

/// Asserts that the derive fails with this message, and that the error points at the source text `at`.
#[track_caller]
fn refused(source: &str, at: &str, message: &str) {
    let error = expand(&parse(source)).expect_err("the derive refuses this");
    let pointed_at = error.span().source_text();
    assert_eq!(error.to_string(), message);
    assert_eq!(pointed_at.as_deref(), Some(at));
}

#[test]
fn every_key_and_mark_is_written() {
    check(
        r#"
        #[event(type = "order.placed", aggregate = "Order", version = 2, topic = "orders")]
        struct OrderPlaced {
            #[event(aggregate_id)]
            order_id: u64,
            #[event(tenant_id)]
            tenant: Option<String>,
            total_cents: u64,
        }"#,
        &quote! {
            #[automatically_derived]
            impl ::posthaste::TypedEvent for OrderPlaced {
                const TYPE: &'static str = "order.placed";
                const AGGREGATE: &'static str = "Order";
                const SCHEMA_VERSION: ::core::option::Option<u32> =
                    ::core::option::Option::Some(2u32);
                const TOPIC: ::core::option::Option<&'static str> =
                    ::core::option::Option::Some("orders");

                fn aggregate_id(&self) -> ::core::option::Option<::std::string::String> {
                    ::core::option::Option::Some(
                        ::std::string::ToString::to_string(&self.order_id)
                    )
                }

                fn tenant_id(&self) -> ::core::option::Option<::std::string::String> {
                    ::core::option::Option::as_ref(&self.tenant)
                        .map(::std::string::ToString::to_string)
                }
            }
        },
    );
}

#[test]
fn defaults_are_the_types_name_and_no_ids() {
    check(
        "struct OrderPlaced;",
        &quote! {
            #[automatically_derived]
            impl ::posthaste::TypedEvent for OrderPlaced {
                const TYPE: &'static str = "OrderPlaced";
                const AGGREGATE: &'static str = ::posthaste::GLOBAL;
                const SCHEMA_VERSION: ::core::option::Option<u32> = ::core::option::Option::None;
                const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::None;

                fn aggregate_id(&self) -> ::core::option::Option<::std::string::String> {
                    ::core::option::Option::None
                }

                fn tenant_id(&self) -> ::core::option::Option<::std::string::String> {
                    ::core::option::Option::None
                }
            }
        },
    );
}

#[test]
fn generics_keep_their_bounds_and_where_clause() {
    let written = expand(&parse("struct Wrapped<T: Send> where T: Sync { value: T }")).unwrap();
    let head = quote! {
        #[automatically_derived]
        impl<T: Send> ::posthaste::TypedEvent for Wrapped<T> where T: Sync
    };
    assert!(written.to_string().starts_with(&head.to_string()));
}

#[test]
fn enum_is_an_event_without_marks() {
    let written =
        expand(&parse(r#"#[event(aggregate = "Order")] enum OrderEvent { Placed { id: u64 }, Gone }"#));
    let written = written.unwrap().to_string();
    assert!(written.contains(r#"const TYPE : & 'static str = "OrderEvent""#));
    assert!(written.contains(r#"const AGGREGATE : & 'static str = "Order""#));
}

#[test]
fn field_of_a_tuple_struct_is_marked_by_position() {
    let body = body_of("struct Moved(u8, #[event(aggregate_id)] u64);", "aggregate_id");
    assert!(body.contains("(& self . 1)"), "{body}");
}

#[test]
fn one_field_can_have_both_marks() {
    let source = "struct Joined { #[event(aggregate_id, tenant_id)] id: String }";
    assert_eq!(body_of(source, "aggregate_id"), body_of(source, "tenant_id"));
}

#[test]
fn option_is_recognized_by_the_last_segment_of_its_path() {
    for (ty, optional) in [
        ("Option<u64>", true),
        ("std::option::Option<u64>", true),
        ("Optional<u64>", false),
        ("Vec<Option<u64>>", false),
        ("&'static str", false),
    ] {
        let source = format!("struct E {{ #[event(tenant_id)] id: {ty} }}");
        let body = body_of(&source, "tenant_id");
        assert_eq!(body.contains("as_ref"), optional, "{ty}");
    }
}

#[test]
fn keys_can_be_spread_over_several_attributes() {
    let source = r#"#[event(version = 1)] #[serde(tag = "x")] #[event(topic = "t")] struct E;"#;
    let written = expand(&parse(source)).unwrap().to_string();
    assert!(written.contains("Some (1u32)") && written.contains(r#"Some ("t")"#));
}

#[test]
fn raw_name_loses_its_prefix() {
    let written = expand(&parse("struct r#Type;")).unwrap().to_string();
    assert!(written.contains(r#"const TYPE : & 'static str = "Type""#));
}

#[test]
fn unknown_key_on_the_type_is_refused() {
    refused(
        r#"#[event(kind = "A")] struct E;"#,
        "kind",
        "unknown key `kind`: a type takes `type`, `aggregate`, `version` and `topic`",
    );
}

#[test]
fn unknown_key_on_a_field_is_refused() {
    refused(
        "struct E { #[event(id)] id: u64 }",
        "id",
        "unknown key `id`: a field takes `aggregate_id` or `tenant_id`",
    );
}

#[test]
fn field_mark_on_the_type_is_refused() {
    refused(
        "#[event(aggregate_id)] struct E { id: u64 }",
        "aggregate_id",
        "`aggregate_id` marks a field: move `#[event(aggregate_id)]` to the field that holds it",
    );
}

#[test]
fn field_mark_with_a_value_is_refused() {
    refused(
        r#"struct E { #[event(tenant_id = "x")] id: u64 }"#,
        "tenant_id",
        "`tenant_id` takes no value, the field is the value: write `#[event(tenant_id)]`",
    );
}

#[test]
fn key_given_twice_is_refused() {
    refused(r#"#[event(type = "A", type = "B")] struct E;"#, "type", "`type` is given twice: keep one");
}

#[test]
fn two_fields_with_the_same_mark_are_refused() {
    refused(
        "struct E { #[event(aggregate_id)] a: u64, #[event( aggregate_id )] b: u64 }",
        "aggregate_id",
        "`aggregate_id` is marked twice: keep the mark on one field",
    );
}

#[test]
fn mark_inside_an_enum_is_refused() {
    let message = "an enum takes `#[event(…)]` only on the whole type: \
                   remove this, or make the event a struct";
    refused("enum E { A { #[event(aggregate_id)] id: u64 } }", "#[event(aggregate_id)]", message);
    refused(r#"enum E { #[event(type = "A")] A }"#, r#"#[event(type = "A")]"#, message);
}

#[test]
fn union_is_refused() {
    refused("union E { a: u8, b: u8 }", "union", "a union cannot be an event: use a struct or an enum");
}

#[test]
fn empty_text_is_refused() {
    for key in ["type", "aggregate", "topic"] {
        refused(
            &format!(r#"#[event({key} = "")] struct E;"#),
            r#""""#,
            &format!("`{key}` is empty: name it, or leave it out for the default"),
        );
    }
}

#[test]
fn text_is_refused_one_character_past_its_limit() {
    for (key, len_max) in [("type", 128), ("aggregate", 64)] {
        // Two bytes each, because the limit is in characters, like that of the columns.
        let fits = "é".repeat(len_max);
        let source = format!(r#"#[event({key} = "{fits}")] struct E;"#);
        assert!(expand(&parse(&source)).is_ok());

        refused(
            &format!(r#"#[event({key} = "{fits}x")] struct E;"#),
            &format!(r#""{fits}x""#),
            &format!("`{key}` has {} characters, at most {len_max} fit", len_max + 1),
        );
    }
}

#[test]
fn error_for_a_long_rust_name_suggests_a_type() {
    let name = "E".repeat(129);
    refused(
        &format!("struct {name};"),
        &name,
        "`type` has 129 characters, at most 128 fit; \
         give a shorter one: `#[event(type = \"…\")]`",
    );
}

#[test]
fn control_character_is_refused() {
    for key in ["type", "aggregate", "topic"] {
        refused(
            &format!(r#"#[event({key} = "a\nb")] struct E;"#),
            r#""a\nb""#,
            &format!("`{key}` contains a control character: use printable text"),
        );
    }
}

#[test]
fn version_that_is_not_a_u32_is_refused() {
    refused(
        "#[event(version = 4294967296)] struct E;",
        "4294967296",
        "`version` is a whole number from 0 to 4294967295",
    );
    refused(r#"#[event(version = "2")] struct E;"#, r#""2""#, "expected integer literal");
}

#[test]
fn bare_attribute_is_refused() {
    refused("#[event] struct E;", "event", "expected attribute arguments in parentheses: #[event(...)]");
}
