//! An order and its event in one transaction of tokio-postgres, on a pool of deadpool-postgres. Both INSERTs are sent
//! in one round trip, so the event costs no round trip of its own.
//!
//! ```sh
//! DATABASE_URL=postgres://localhost/shop cargo run -p posthaste-examples --bin tokio_postgres
//! ```

use deadpool_postgres::{Manager, Pool};
use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
use posthaste_examples::database_url;
use posthaste_sqlx::PgStore;
use posthaste_tokio_postgres::PgWriter;
use tokio_postgres::NoTls;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = database_url("DATABASE_URL")?;
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(4).build()?;
    let orders = "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY, item text)";
    pool.get().await?.batch_execute(orders).await?;

    // The engine has its own connections, whatever driver the service uses.
    let store = PgStore::builder(&url.parse()?).migrate().connect().await?;
    let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| {
        println!("delivered: {}", String::from_utf8_lossy(event.payload()));
    });
    let outbox = Outbox::builder(store.clone(), routes).start()?;
    let writer = PgWriter::new(&store, &outbox);

    place_order(&writer, &pool, "tea").await?;
    sell_out(&writer, &pool, "coffee").await?;

    outbox.shutdown().await; // What is queued is delivered first.
    store.close().await;
    Ok(())
}

async fn place_order(writer: &PgWriter, pool: &Pool, item: &str) -> Result<(), BoxError> {
    let mut client = pool.get().await?;
    let insert = client.prepare_cached("INSERT INTO orders (item) VALUES ($1)").await?;
    let event = Event::json("OrderPlaced", &serde_json::json!({ "item": item }))?;

    let tx = writer.begin(&mut client).await?;
    let order = async { tx.execute(&insert, &[&item]).await };
    let (order, event) = tokio::join!(order, tx.write(event));
    order?;
    event?;
    tx.commit().await?;
    Ok(())
}

/// Rolls back after the event was written: neither the order nor the event is stored.
async fn sell_out(writer: &PgWriter, pool: &Pool, item: &str) -> Result<(), BoxError> {
    let mut client = pool.get().await?;
    let tx = writer.begin(&mut client).await?;
    tx.write(Event::json("OrderPlaced", &serde_json::json!({ "item": item }))?).await?;
    println!("sold out: {item}");
    tx.rollback().await?;
    Ok(())
}
