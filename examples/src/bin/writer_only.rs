//! A service that writes events and leaves delivery to a relay, an engine in another process, or change data capture.
//! It places one order and exits.
//!
//! The commit wakes the engines of other processes immediately. Old rows are deleted by their age, whether they were
//! delivered or not, so choose an age that is longer than any outage of the relay.
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

    // Started only for its purge. Without a purge there is nothing to start, and `build` is enough.
    let outbox =
        Outbox::builder(store.clone(), Routes::new()).writer_only().purge_at_age(WEEK, HOUR).start()?;
    let writer = PgWriter::new(&store, &outbox);

    let order = place_order(&writer, &pool).await?;
    println!("order {order} is placed");
    // The purger runs by itself within a minute. This program exits before that.
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
