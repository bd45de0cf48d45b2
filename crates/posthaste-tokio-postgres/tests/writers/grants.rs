//! A service with minimal privileges, granted by `migrations/postgres/grants.sql`: its connections have the role of a
//! writer, its engine that of a relay.

use posthaste::{Event, Outbox, Recorder, Route, Routes};
use posthaste_sqlx::PgStore;
use posthaste_testkit::grants::{create_roles_sql, drop_roles_sql, url_as};
use posthaste_tokio_postgres::PgWriter;

use crate::support::{Db, connect, event, events, within_timeout};

async fn store_as(db: &Db, role: &str) -> PgStore {
    let url = url_as(db.schema.as_str(), role);
    let builder = PgStore::builder(&url.parse().expect("a valid URL")).schema(db.schema.clone());
    builder.connect().await.expect("the store opens")
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn writer_with_minimal_privileges_can_write_in_transactions_and_savepoints() {
    let db = Db::new().await;
    db.execute(&create_roles_sql(db.schema.as_str())).await;
    let store = store_as(&db, "relay").await;
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).single_node().start().unwrap();
    let writer = PgWriter::new(&store, &outbox);
    let mut config = db.config.clone();
    config.user(format!("{}_writer", db.schema));
    let mut client = connect(&config).await;

    let mut tx = writer.begin(&mut client).await.unwrap();
    tx.write(event("own")).await.unwrap();
    let savepoint = tx.savepoint().await.unwrap();
    savepoint.write_all(events(&["own-nested-1", "own-nested-2"])).await.unwrap();
    savepoint.release().await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = client.transaction().await.unwrap();
    let direct = writer.insert(&tx, event("direct")).await.unwrap();
    let nested = tx.transaction().await.unwrap();
    let late = Event::builder("Tested").id("late").deliver_after(std::time::Duration::from_secs(3600));
    let batch = vec![event("nested"), late.json_text("{}").build().unwrap()];
    let receipt = writer.insert_all(&nested, batch).await.expect("a writer may insert");
    nested.commit().await.unwrap();
    tx.commit().await.unwrap();
    outbox.committed(direct);
    outbox.committed(receipt);

    within_timeout("all are delivered", recorder.wait_for(5)).await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    let waiting = "SELECT count(*) FROM outbox_event WHERE event_id = 'late' AND status = 0
        AND available_at > now() + interval '50 minutes'";
    assert_eq!(db.int(waiting).await, 1, "a delayed event stays delayed");
    assert_eq!(recorder.count(), 5);
    outbox.shutdown().await;
    store.close().await;
    drop(client);
    db.execute(&drop_roles_sql(db.schema.as_str())).await;
    db.close().await;
}
