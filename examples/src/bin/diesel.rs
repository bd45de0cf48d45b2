//! An order and its event in one transaction of diesel, and an engine in the same process that delivers it.
//!
//! ```sh
//! cargo run -p posthaste-examples --bin diesel
//! ```

#![allow(missing_docs, reason = "the macro `table!` takes no docs")]

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
use posthaste_diesel::SqliteWriter;
use posthaste_sqlx::SqliteStore;

diesel::table! {
    orders (id) { id -> Integer, item -> Text }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = SqliteStore::builder(&"sqlite:shop.db?mode=rwc".parse()?).migrate().connect().await?;
    let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| {
        println!("delivered: {}", String::from_utf8_lossy(event.payload()));
    });
    let outbox = Outbox::builder(store.clone(), routes).start()?;
    let writer = SqliteWriter::new(&store, &outbox);

    tokio::task::spawn_blocking(move || run_shop(&writer)).await??;

    outbox.shutdown().await; // What is queued is delivered first.
    Ok(())
}

/// The service itself, which does not use Tokio.
fn run_shop(writer: &SqliteWriter) -> Result<(), BoxError> {
    let mut connection = SqliteConnection::establish("shop.db")?;
    // The engine writes to the same file: wait for it instead of failing. diesel sets no timeout by default.
    connection.batch_execute("PRAGMA busy_timeout = 5000")?;
    connection.batch_execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)")?;

    writer.transaction(&mut connection, |tx| {
        let insert = diesel::insert_into(orders::table).values(orders::item.eq("tea"));
        let order: i32 = insert.returning(orders::id).get_result(tx.conn())?;
        tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": order }))?)?;
        Ok(())
    })
}
