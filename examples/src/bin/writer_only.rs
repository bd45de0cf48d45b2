//! A service that writes events and delivers none: a relay, an engine in another process or change data
//! capture does. It places an order and ends.
//!
//! The commit wakes the engines of other processes at once. What became old is deleted by its age,
//! whether it was delivered or not, so choose an age that no outage of the relay will ever reach.
//!
//! ```sh
//! DATABASE_URL=postgres://localhost/shop cargo run -p posthaste-examples --bin writer_only
//! ```

use std::time::Duration;

use posthaste::{BoxError, Event, Outbox, Routes};
use posthaste_examples::database_url;
use posthaste_sqlx::{PgStore, PgWriter};
use sqlx::PgPool;

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let pool = PgPool::connect(&database_url("DATABASE_URL")?).await?;
    let store = PgStore::builder(&pool.connect_options()).migrate().connect().await?;
    let orders = "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY)";
    sqlx::query(orders).execute(&pool).await?;

    // Started for its purge alone: without one there is nothing to start, and `build` is enough.
    let outbox =
        Outbox::builder(store.clone(), Routes::new()).writer_only().purge_at_age(WEEK, HOUR).start()?;
    let writer = PgWriter::new(&store, &outbox);

    let order = place_order(&writer, &pool).await?;
    println!("order {order} is placed");
    // The purger comes by itself within a minute. This program ends before that.
    println!("purged: {}", outbox.purge_once().await?);

    outbox.shutdown().await;
    store.close().await;
    pool.close().await;
    Ok(())
}

async fn place_order(writer: &PgWriter, pool: &PgPool) -> Result<i64, BoxError> {
    let mut tx = writer.begin(pool).await?;
    let insert = sqlx::query_scalar("INSERT INTO orders DEFAULT VALUES RETURNING id");
    let order: i64 = insert.fetch_one(&mut *tx).await?;
    tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": order }))?).await?;
    tx.commit().await?;
    Ok(order)
}
