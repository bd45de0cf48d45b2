//! An order and its event in one transaction, and a handler in the same process.

use posthaste::{Delivery, Event, Outbox, Routes};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use sqlx::SqlitePool;

#[tokio::main]
async fn main() -> Result<(), posthaste::BoxError> {
    let pool = SqlitePool::connect("sqlite:shop.db?mode=rwc").await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)")
        .execute(&pool)
        .await?;

    // The outbox is one more table in the same file.
    let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
    let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| {
        println!("delivered: {}", String::from_utf8_lossy(event.payload()));
    });
    let outbox = Outbox::builder(store.clone(), routes).start()?;
    let writer = SqliteWriter::new(&store, &outbox);

    // Both are committed, or neither is.
    let mut tx = writer.begin(&pool).await?;
    let order = sqlx::query("INSERT INTO orders (item) VALUES ('tea')").execute(&mut *tx).await?;
    let order = order.last_insert_rowid();
    tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": order }))?).await?;
    tx.commit().await?;

    outbox.shutdown().await; // What is queued is delivered first.
    Ok(())
}
