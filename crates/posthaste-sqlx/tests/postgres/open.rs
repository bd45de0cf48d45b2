//! Opening an outbox on PostgreSQL: schemas, encodings and names.

use posthaste_sqlx::{OpenError, PgStore, SchemaName, TableName};
use proptest::prelude::*;

use crate::cases::open::assert_name_works;
use crate::support::*;

crate::cases::open::open_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn missing_schema_is_refused() {
    let error = Place::new().await.builder().connect().await.expect_err("no schema");
    assert!(matches!(error, OpenError::NoSchema { .. }), "{error:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn database_with_another_encoding_is_refused_and_left_alone() {
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let database = new_schema();
        administrate(&format!(
            r#"CREATE DATABASE "{database}" ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"#
        ))
        .await;
        let options = server().database(database.as_str());
        for error in errors_of(PgStore::builder(&options)).await {
            assert!(matches!(&error, OpenError::Encoding(name) if name == encoding), "{error:?}");
            assert!(!error.to_string().contains("PRAGMA"), "that is SQLite's: {error}");
        }
        administrate(&format!(r#"DROP DATABASE "{database}" WITH (FORCE)"#)).await;
    }
}

// S3-125
#[test]
fn schema_names_are_words_of_letters_digits_and_underscores() {
    let long = "x".repeat(SchemaName::MAX_CHARS);
    for good in ["public", "_", "A", "order", "SELECT", "a1", "xpg_", long.as_str()] {
        assert_eq!(good.parse::<SchemaName>().expect(good).as_str(), good);
    }
    let longer = "x".repeat(SchemaName::MAX_CHARS + 1);
    for bad in ["", "1a", "a b", "a\"b", "a;b", "a.b", "a-b", "é", "a\0", "pg_a", "PG_", longer.as_str()] {
        let error = bad.parse::<SchemaName>().expect_err(bad).to_string();
        assert!(error.contains("letters, digits"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    // S1, S2-25, S3-125
    #[test]
    fn hostile_name_is_refused(name in "\\PC*['\"`;\\-\\[\\]() .\\x00\u{ff}\u{430}]\\PC*") {
        prop_assert!(name.parse::<SchemaName>().is_err(), "{name:?}");
        prop_assert!(name.parse::<TableName>().is_err(), "{name:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    // S1
    #[test]
    #[ignore = "needs PostgreSQL: cargo xtask test"]
    fn name_is_refused_or_works_as_a_plain_name(
        table in prop_oneof!["[A-Za-z_][A-Za-z0-9_]{0,50}", "\\PC{0,8}", "(?i)(select|table|user|order|oid|ctid)", "[a-z]{48}"],
        rest in prop_oneof!["[A-Za-z0-9_]{0,30}", "[\"';. -]{1,3}", "[a-z]{35}"],
    ) {
        let (table, schema) = (table.parse::<TableName>(), format!("{}{rest}", new_schema()).parse::<SchemaName>());
        let (Ok(table), Ok(schema)) = (table, schema) else { return Ok(()) };
        assert_name_works(async || Place { schema }, table);
    }
}
