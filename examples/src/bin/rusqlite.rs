//! An order and its event in one transaction of rusqlite, on a thread without async code, and an engine in the same
//! process that delivers it.
//!
//! ```sh
//! cargo run -p posthaste-examples --bin rusqlite
//! ```

use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
use posthaste_rusqlite::SqliteWriter;
use posthaste_sqlx::SqliteStore;
use rusqlite::Connection;

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
    let mut connection = Connection::open("shop.db")?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)")?;

    let tx = writer.begin(&mut connection)?;
    tx.execute("INSERT INTO orders (item) VALUES (?1)", ["tea"])?;
    let order = tx.last_insert_rowid();
    tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": order }))?)?;
    tx.commit()?;
    Ok(())
}
