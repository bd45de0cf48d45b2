//! An order and its event in one transaction, and the event published to standard output, or to the URL in the first
//! argument: `publish kafka://localhost:9092/orders`, for example (with `--features brokers`).

use posthaste::{Event, Outbox, Route, Routes};
use posthaste_publishers::publisher;
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use sqlx::SqlitePool;

#[tokio::main]
async fn main() -> Result<(), posthaste::BoxError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "stdout:".to_owned());
    let pool = SqlitePool::connect("sqlite:shop.db?mode=rwc").await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)")
        .execute(&pool)
        .await?;

    let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
    let routes = Routes::new().add(Route::fallback().name("orders").deliver_to(publisher(&url)?));
    let outbox = Outbox::builder(store.clone(), routes).start()?;

    let mut tx = SqliteWriter::new(&store, &outbox).begin(&pool).await?;
    let order = sqlx::query("INSERT INTO orders (item) VALUES ('tea')").execute(&mut *tx).await?;
    let order = order.last_insert_rowid();
    let event = Event::builder("OrderPlaced").aggregate("Order", order);
    tx.write(event.json(&serde_json::json!({ "order": order })).build()?).await?;
    tx.commit().await?;

    // Nothing is lost if the broker is down: the next run delivers the rest.
    outbox.shutdown().await;
    Ok(())
}
