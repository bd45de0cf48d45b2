//! Opening an outbox on MySQL and MariaDB: databases, rights, names, and interrupted migrations.

use posthaste_sqlx::{MySqlStore, OpenError, TableName};
use proptest::prelude::*;
use sqlx::ConnectOptions as _;

use crate::cases::open::assert_name_works;
use crate::support::*;

crate::cases::open::open_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn url_without_a_database_is_refused() {
    let url = server().to_url_lossy();
    let options = format!("mysql://{}@{}:{}", url.username(), server().get_host(), server().get_port());
    for error in errors_of(MySqlStore::builder(&options.parse().unwrap())).await {
        assert!(matches!(error, OpenError::NoDatabase { .. }), "{error:?}");
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn user_without_rights_gets_the_location_of_the_grants() {
    let (place, login) = (Place::new().await, Login::new("").await);
    let user = format!("{}@'%'", login.name);
    administrate(&format!("REVOKE ALL ON *.* FROM {user}; GRANT SELECT ON {}.* TO {user}", place.name)).await;
    let error = place.builder_as(&login).migrate().connect().await.expect_err("it may not create a table");
    assert!(matches!(error, OpenError::NotAllowed { .. }), "{error:?}");
    assert!(error.to_string().contains("docs/mysql.md"), "{error}");
    place.remove().await;
    login.remove().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn migration_that_was_interrupted_anywhere_is_finished_by_the_next_one() {
    let whole = Place::migrated().await;
    let printed = whole.builder().migrations().sql();
    let steps: Vec<&str> = printed.split_inclusive(";\n").collect();
    for done in 1..steps.len() {
        let place = Place::new().await;
        place.shell(&steps[..done].concat());
        place.builder().connect().await.expect_err("half an outbox");
        let store = place.builder().migrate().connect().await;
        store.unwrap_or_else(|error| panic!("after {done} steps: {error:?}")).close().await;
        assert_eq!(place.contents().await, whole.contents().await, "after {done} steps");
        place.remove().await;
    }
    whole.remove().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    // S1
    #[test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    fn name_is_refused_or_works_as_a_plain_name(
        table in prop_oneof!["[A-Za-z_][A-Za-z0-9_]{0,50}", "\\PC{0,8}", "(?i)(select|table|user|order|key|rows)", "[a-z]{48}"],
    ) {
        let Ok(table) = table.parse::<TableName>() else { return Ok(()) };
        assert_name_works(Place::new, table);
    }
}
