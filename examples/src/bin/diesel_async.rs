//! An order and its event in one transaction of diesel-async, on PostgreSQL.
//!
//! ```sh
//! DATABASE_URL=postgres://localhost/shop cargo run -p posthaste-examples --bin diesel_async
//! ```

#![allow(missing_docs, reason = "the macro `table!` takes no docs")]

use diesel::prelude::*;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
use posthaste_diesel::{AsyncPgTx, AsyncPgWriter};
use posthaste_examples::database_url;
use posthaste_sqlx::PgStore;

diesel::table! {
    orders (id) { id -> BigInt, item -> Text }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = database_url("DATABASE_URL")?;
    let mut connection = AsyncPgConnection::establish(&url).await?;
    let table = "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY, item text)";
    connection.batch_execute(table).await?;

    // The engine has its own connections, whatever driver the service uses.
    let store = PgStore::builder(&url.parse()?).migrate().connect().await?;
    let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| {
        println!("delivered: {}", String::from_utf8_lossy(event.payload()));
    });
    let outbox = Outbox::builder(store.clone(), routes).start()?;
    let writer = AsyncPgWriter::new(&store, &outbox);

    let placed = writer.transaction(&mut connection, async |tx: &mut AsyncPgTx<'_>| {
        let insert = diesel::insert_into(orders::table).values(orders::item.eq("tea"));
        insert.execute(tx.conn()).await?;
        tx.write(Event::json("OrderPlaced", &serde_json::json!({ "item": "tea" }))?).await?;
        Ok::<_, BoxError>(())
    });
    placed.await?;

    outbox.shutdown().await; // What is queued is delivered first.
    store.close().await;
    Ok(())
}
