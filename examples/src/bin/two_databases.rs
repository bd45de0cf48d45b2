//! Two databases, each with an outbox of its own.
//!
//! No transaction spans both files. An event carries the change from the first to the second, at least once, and the
//! second recognizes a repeated delivery by the key of its own row.

use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced")]
struct OrderPlaced {
    order: i64,
}

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "InvoiceMade")]
struct InvoiceMade {
    order: i64,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let invoices = "CREATE TABLE IF NOT EXISTS invoices (order_id INTEGER PRIMARY KEY)";
    let billing = Database::open("sqlite:billing.db?mode=rwc", invoices, routes_of_billing()).await?;
    let orders = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)";
    let shop = Database::open("sqlite:shop.db?mode=rwc", orders, routes_of_shop(billing.clone())).await?;

    place_order(&shop).await?;

    // The handlers of the shop write to billing, so the shop stops first.
    shop.outbox.shutdown().await;
    billing.outbox.shutdown().await;
    Ok(())
}

/// A file with its own outbox.
#[derive(Clone, Debug)]
struct Database {
    pool: SqlitePool,
    outbox: Outbox,
    writer: SqliteWriter,
}

impl Database {
    async fn open(url: &str, table: &'static str, routes: Routes) -> Result<Self, BoxError> {
        let pool = SqlitePool::connect(url).await?;
        sqlx::query(table).execute(&pool).await?;
        let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
        let outbox = Outbox::builder(store.clone(), routes).start()?;
        let writer = SqliteWriter::new(&store, &outbox);
        Ok(Self { pool, outbox, writer })
    }
}

/// An order is handled by billing.
fn routes_of_shop(billing: Database) -> Routes {
    Routes::new().on(move |placed: OrderPlaced, _: Delivery| {
        let billing = billing.clone();
        async move { make_invoice(&billing, placed.order).await }
    })
}

fn routes_of_billing() -> Routes {
    Routes::new().on(async |made: InvoiceMade, _: Delivery| println!("order {} is invoiced", made.order))
}

async fn place_order(shop: &Database) -> Result<(), BoxError> {
    let mut tx = shop.writer.begin(&shop.pool).await?;
    let order = sqlx::query("INSERT INTO orders DEFAULT VALUES").execute(&mut *tx).await?.last_insert_rowid();
    tx.write(Event::of(&OrderPlaced { order })?).await?;
    Ok(tx.commit().await?)
}

/// Makes an invoice, unless the order has one because it is delivered a second time.
async fn make_invoice(billing: &Database, order: i64) -> Result<(), BoxError> {
    let mut tx = billing.writer.begin(&billing.pool).await?;
    let insert = "INSERT INTO invoices (order_id) VALUES (?) ON CONFLICT (order_id) DO NOTHING";
    if sqlx::query(insert).bind(order).execute(&mut *tx).await?.rows_affected() == 1 {
        tx.write(Event::of(&InvoiceMade { order })?).await?;
    }
    Ok(tx.commit().await?)
}

#[cfg(test)]
mod tests {
    use posthaste::{Recorder, Route};

    use super::*;

    // S3-23
    #[tokio::test]
    async fn order_is_invoiced_once_however_often_it_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let url = |name: &str| format!("sqlite:{}?mode=rwc", dir.path().join(name).display());
        let sent = Recorder::new();
        let routes = Routes::new().add(Route::event("InvoiceMade").deliver_to(sent.clone()));
        let invoices = "CREATE TABLE invoices (order_id INTEGER PRIMARY KEY)";
        let billing = Database::open(&url("billing.db"), invoices, routes).await.unwrap();
        let orders = "CREATE TABLE orders (id INTEGER PRIMARY KEY)";
        let shop = Database::open(&url("shop.db"), orders, routes_of_shop(billing.clone())).await.unwrap();

        place_order(&shop).await.unwrap();
        shop.outbox.idle().await.unwrap();
        make_invoice(&billing, 1).await.unwrap();
        billing.outbox.idle().await.unwrap();

        assert_eq!(sent.count(), 1);
        shop.outbox.shutdown().await;
        billing.outbox.shutdown().await;
    }
}
