//! Checks of a foreign table before anything is delivered from it.

use posthaste::store::{Settled, Verdict};
use posthaste_sqlx::OpenError;
use posthaste_sqlx::foreign::{Field, Layout, State};

use crate::cases::foreign::*;
use crate::foreign::{DEBEZIUM_SQL, ORDER_SERVICE_SQL, builder};
use crate::foreign_open::{PARTITIONED_TABLE_SQL, User, as_user};
use crate::support::*;

/// The tests of this file.
macro_rules! foreign_open_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::foreign_open:
            mismatching_table_is_refused_with_every_mismatch,
            missing_right_is_detected_before_any_delivery,
            key_that_is_not_unique_is_refused,
            row_of_a_partitioned_table_is_found_by_its_id_and_time,
        );
    };
}
pub(crate) use foreign_open_tests;

pub(crate) async fn mismatching_table_is_refused_with_every_mismatch() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    let refused =
        |layout: Layout| async { builder(&db, layout).connect().await.expect_err("a wrong layout") };
    let error = refused(Layout::outbox_record().table("nowhere".parse().unwrap())).await;
    assert!(matches!(error, OpenError::NoForeignTable { .. }), "{error}");
    let layout = Layout::order_service().column(Field::Payload, "sent_at".parse().unwrap());
    let layout =
        layout.column(Field::Tenant, "tenant".parse().unwrap()).value(State::Sent, "DONE".parse().unwrap());
    let error = refused(layout).await.to_string();
    assert!(error.contains("no column tenant") && error.contains("sent_at is"), "{error}");
    let layout = odd_table(&db).await;
    let error = refused(layout.value(State::Sent, "DONE".parse().unwrap())).await.to_string();
    assert!(error.contains("cannot be DONE") && error.contains("'gone out'"), "{error}");
    let error = refused(Layout::new("outbox".parse().unwrap())).await.to_string();
    assert!(error.contains("id is missing") && error.contains("payload is missing"), "{error}");
    db.close().await;
}

pub(crate) async fn missing_right_is_detected_before_any_delivery() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    db.execute(DEBEZIUM_SQL).await;
    let user = User::new(&db).await;
    let opened = async |layout: Layout| as_user(&db, &user, layout).connect().await.map(drop);
    for (layout, wrong, partly, right) in [
        (Layout::order_service(), "DELETE", "UPDATE (status, sent_at)", "UPDATE"),
        (Layout::debezium(), "UPDATE", "UPDATE (payload)", "DELETE"),
    ] {
        let table = layout.table_name().to_string();
        for granted in ["SELECT", wrong, partly] {
            user.grant(&db, granted, &table).await;
            let error = opened(layout.clone()).await.expect_err(granted);
            assert!(matches!(error, OpenError::NotGranted { .. }), "{granted}: {error:?}");
            let error = error.to_string();
            assert!(error.contains(&format!("GRANT SELECT, {right} ON ")), "{error}");
            assert!(error.contains(&user.name), "{error}");
        }
        as_user(&db, &user, layout.clone())
            .read_only()
            .connect()
            .await
            .expect("a read-only store")
            .close()
            .await;
        user.grant(&db, right, &table).await;
        opened(layout).await.expect("all rights");
    }
    user.drop(&db).await;
    db.close().await;
}

/// The layout of a table with only these columns.
fn small(table: &str) -> Layout {
    let columns =
        [(Field::Id, "id"), (Field::EventType, "kind"), (Field::Payload, "body"), (Field::Status, "state")];
    described(table, &columns, &[(State::Pending, "NEW"), (State::Sent, "SENT")])
}

pub(crate) async fn key_that_is_not_unique_is_refused() {
    let db = Db::new().await;
    let rest =
        "kind VARCHAR(9) NOT NULL, body VARCHAR(9) NOT NULL, state VARCHAR(9) NOT NULL, part INT NOT NULL";
    for (table, id, keys) in [
        ("bare", "NOT NULL", vec![]),
        ("ordinary", "NOT NULL", vec!["CREATE INDEX of_ordinary ON ordinary (id)"]),
        ("wide", "NOT NULL", vec!["ALTER TABLE wide ADD PRIMARY KEY (id, part)"]),
        ("empty", "NULL", vec!["CREATE UNIQUE INDEX of_empty ON empty (id)"]),
    ] {
        db.execute(&format!("CREATE TABLE {table} (id INT {id}, {rest})")).await;
        for statement in keys {
            db.execute(statement).await;
        }
        let error = builder(&db, small(table)).connect().await.expect_err(table).to_string();
        let expected =
            if id == "NULL" { "id of its key can be NULL" } else { "rows from having the same id" };
        assert!(error.contains(expected), "{table}: {error}");
    }
    let both = small("wide").key(["id", "part"].map(|name| name.parse().unwrap()));
    builder(&db, both).connect().await.expect("the primary key").close().await;
    db.execute("CREATE UNIQUE INDEX only_of_bare ON bare (id)").await;
    builder(&db, small("bare")).connect().await.expect("a unique index").close().await;
    db.execute("CREATE VIEW seen AS SELECT * FROM wide").await;
    builder(&db, small("seen")).connect().await.expect("a view").close().await;
    db.close().await;
}

/// A unique index of such a table must contain the partition column.
pub(crate) async fn row_of_a_partitioned_table_is_found_by_its_id_and_time() {
    let db = Db::new().await;
    db.execute(PARTITIONED_TABLE_SQL).await;
    db.execute("INSERT INTO parted VALUES (7, '2026-01-01 00:00:00.123457', 'A', '{}', 'NEW')").await;
    let layout = small("parted").column(Field::CreatedAt, "at".parse().unwrap());
    let store = open(&db, layout.key(["id", "at"].map(|name| name.parse().unwrap()))).await;
    let claimed = claim(&store, 9).await;
    assert_eq!(ids_of(&claimed), ["7"]);
    assert_eq!(settle(&store, &claimed, Verdict::Done).await, [Settled::Done]);
    assert_eq!(db.int("SELECT count(*) FROM parted WHERE state = 'SENT'").await, 1);
    close(&store, &db).await;
}
