//! A service with minimal privileges on PostgreSQL, granted by `migrations/postgres/grants.sql`: its connections have
//! the role of a writer, its engine that of a relay.

use posthaste::{Outbox, Recorder, Route, Routes};
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::PgStore;
use posthaste_testkit::grants::{create_roles_sql, drop_roles_sql, url_as};
use posthaste_testkit::{event, variable, within_timeout};
use sea_orm::{ConnectionTrait as _, Database, TransactionTrait as _};

use crate::support::new_name;

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn writer_with_minimal_privileges_can_write_in_transactions_and_savepoints() {
    let (url, schema) = (variable("POSTHASTE_TEST_POSTGRES_URL"), new_name());
    let builder = |url: &str| PgStore::builder(&url.parse().unwrap()).schema(schema.parse().unwrap());
    builder(&url).migrate().connect().await.unwrap().close().await;
    let admin = Database::connect(&url).await.unwrap();
    admin.execute_unprepared(&create_roles_sql(&schema)).await.unwrap();
    let store = builder(&url_as(&schema, "relay")).connect().await.unwrap();
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).single_node().start().unwrap();
    let writer = SeaWriter::new(&store, &outbox);
    let db = Database::connect(url_as(&schema, "writer")).await.unwrap();

    let tx = writer.begin(&db).await.unwrap();
    tx.write(event("own")).await.unwrap();
    let savepoint = tx.savepoint().await.unwrap();
    savepoint.write_all(vec![event("own-nested-1"), event("own-nested-2")]).await.unwrap();
    savepoint.release().await.unwrap();
    tx.commit().await.unwrap();

    let tx = db.begin().await.unwrap();
    let direct = writer.insert(&tx, event("direct")).await.unwrap();
    let nested = tx.begin().await.unwrap();
    let receipt = writer.insert_nested(&nested, vec![event("nested")]).await.unwrap();
    nested.commit().await.unwrap();
    tx.commit().await.unwrap();
    outbox.committed(direct);
    outbox.committed(receipt);

    within_timeout("all are delivered", recorder.wait_for(5)).await;
    outbox.shutdown().await;
    store.close().await;
    db.close().await.unwrap();
    admin.execute_unprepared(&drop_roles_sql(&schema)).await.unwrap();
    admin.execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
