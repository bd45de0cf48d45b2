//! A service with minimal privileges on PostgreSQL, granted by `migrations/postgres/grants.sql`: its connections have
//! the role of a writer, its engine that of a relay.

use diesel::Connection as _;
use diesel_async::AsyncConnection as _;
use posthaste::{BoxError, Outbox, Receipt, Recorder, Route, Routes};
use posthaste_diesel::{AsyncPgWriter, PgWriter};
use posthaste_sqlx::PgStore;
use posthaste_testkit::grants::{create_roles_sql, drop_roles_sql, url_as};
use posthaste_testkit::within_timeout;

use crate::support::{Postgres, event};

fn write_blocking(writer: &PgWriter, url: &str) -> Result<Vec<Receipt>, BoxError> {
    let mut connection = diesel::PgConnection::establish(url)?;
    writer.transaction(&mut connection, |tx| {
        tx.write(event("own"))?;
        tx.savepoint(|tx| Ok::<_, BoxError>(tx.write_all(vec![event("own-1"), event("own-2")]).map(drop)?))
    })?;
    connection.transaction(|connection| {
        let direct = writer.insert(connection, event("direct"))?;
        let nested = connection
            .transaction(|connection| Ok::<_, BoxError>(writer.insert(connection, event("nested"))?))?;
        Ok(vec![direct, nested])
    })
}

async fn write_async(writer: &AsyncPgWriter, url: &str) -> Result<Receipt, BoxError> {
    let mut connection = diesel_async::AsyncPgConnection::establish(url).await?;
    let mut tx = writer.begin(&mut connection).await?;
    tx.write(event("later")).await?;
    tx.savepoint(async |tx| Ok::<_, BoxError>(tx.write(event("later-nested")).await.map(drop)?)).await?;
    tx.commit().await?;
    connection
        .transaction(async |connection| Ok(writer.insert(connection, event("later-direct")).await?))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn writer_with_minimal_privileges_can_write_in_transactions_and_savepoints() {
    let db = Postgres::open().await;
    let schema = db.schema().to_string();
    db.execute(&create_roles_sql(&schema)).await;
    let relay = PgStore::builder(&url_as(&schema, "relay").parse().unwrap()).schema(db.schema().clone());
    let store = relay.connect().await.unwrap();
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).single_node().start().unwrap();
    let url = url_as(&schema, "writer");
    let (writer, writer_url) = (PgWriter::new(&store, &outbox), url.clone());
    let receipts = tokio::task::spawn_blocking(move || write_blocking(&writer, &writer_url)).await.unwrap();
    receipts.unwrap().into_iter().for_each(|receipt| outbox.committed(receipt));
    let writer = AsyncPgWriter::new(&store, &outbox);
    outbox.committed(write_async(&writer, &url).await.unwrap());
    within_timeout("all are delivered", recorder.wait_for(8)).await;
    outbox.shutdown().await;
    store.close().await;
    db.execute(&drop_roles_sql(&schema)).await;
    db.close().await;
}
