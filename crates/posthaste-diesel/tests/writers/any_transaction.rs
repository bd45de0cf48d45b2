//! `posthaste::writer::Tx` on the transactions of diesel-async.

use diesel_async::AsyncConnection as _;
use posthaste::{Admin as _, BoxError, EventId, Outbox, Routes};
use posthaste_diesel::{AsyncSqliteConnection, AsyncSqliteWriter};

use crate::support::{Sqlite, event};

/// Written once for the transactions of all drivers.
async fn place(mut tx: impl posthaste::writer::Tx, id: &str) -> Result<(), BoxError> {
    tx.write(event(id)).await?;
    Ok(tx.commit().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn function_over_any_transaction_takes_one_of_diesel_async() {
    let db = Sqlite::open().await;
    let outbox = Outbox::builder(db.store.clone(), Routes::new()).writer_only().build().unwrap();
    let writer = AsyncSqliteWriter::new(&db.store, &outbox);
    let mut connection = AsyncSqliteConnection::establish(&db.url()).await.unwrap();

    place(writer.begin(&mut connection).await.unwrap(), "placed").await.unwrap();

    assert!(db.store.get(&EventId::from("placed")).await.unwrap().is_some());
    drop(connection);
    db.close().await;
}
