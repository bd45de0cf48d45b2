//! Events as PostgreSQL keeps them, and several outboxes beside each other.

use posthaste::{Admin as _, Outbox, Recorder, Route, Routes};
use posthaste_sqlx::PgStore;

use crate::support::*;

payload_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

/// Two outboxes beside each other, one of them in a schema and a table with odd names.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn several_outboxes_in_one_database_do_not_see_each_others_rows() {
    let db = Db::new().await;
    let elsewhere: posthaste_sqlx::SchemaName = format!("{}_Select", db.schema).parse().unwrap();
    let beside = PgStore::builder(&server()).schema(db.schema.clone()).table("Order".parse().unwrap());
    let far = PgStore::builder(&server()).schema(elsewhere.clone()).table("User".parse().unwrap());
    let mut stores = vec![("here", db.store.clone())];
    for (name, builder) in [("beside", beside), ("far", far)] {
        stores.push((name, builder.migrate().connect().await.expect("another outbox")));
    }
    let mut engines = Vec::new();
    for (name, store) in &stores {
        let recorder = Recorder::new();
        let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
        let outbox = Outbox::builder(store.clone(), routes).start().unwrap();
        // The same id in all, which is no duplicate.
        let mut tx = store.writer(&outbox).begin(&db.pool).await.unwrap();
        tx.write_all(events(&["same", name])).await.unwrap();
        tx.commit().await.unwrap();
        engines.push((name, outbox, recorder));
    }
    db.store.pause("fallback", "somebody").await.unwrap();
    for (name, outbox, recorder) in &engines {
        within_timeout("the engine is idle", outbox.idle()).await.unwrap();
        assert_eq!(set_of(recorder.ids()), set_of(["same", **name]));
        assert_eq!(recorder.count(), 2);
        outbox.shutdown().await;
    }
    for (name, store) in &stores {
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.done, stats.paused.len()), (2, usize::from(*name == "here")), "{name}");
        store.close().await;
    }
    drop_schema(&elsewhere).await;
    db.close().await;
}
