//! One service with two PostgreSQL databases, one per region, each with an outbox of its own.
//!
//! An event is written in a transaction of the database that contains its data, and delivered by the outbox of that
//! database. Nothing spans both databases: if one is down, the other one continues.
//!
//! ```sh
//! export DATABASE_URL=postgres://localhost/shop_eu DATABASE_URL_US=postgres://localhost/shop_us
//! cargo run -p posthaste-examples --bin two_postgres_databases
//! ```

use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
use posthaste_examples::database_url;
use posthaste_sqlx::{PgStore, PgWriter};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

/// An account was opened.
#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "AccountOpened")]
struct AccountOpened {
    owner: String,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let europe = Region::open("eu", &database_url("DATABASE_URL")?).await?;
    let america = Region::open("us", &database_url("DATABASE_URL_US")?).await?;

    europe.open_account("ada").await?;
    america.open_account("bob").await?;

    europe.close().await;
    america.close().await;
    Ok(())
}

/// A database with its own outbox.
#[derive(Debug)]
struct Region {
    pool: PgPool,
    store: PgStore,
    outbox: Outbox,
    writer: PgWriter,
}

impl Region {
    async fn open(name: &'static str, url: &str) -> Result<Self, BoxError> {
        let pool = PgPool::connect(url).await?;
        let store = PgStore::builder(&pool.connect_options()).migrate().connect().await?;
        let accounts = "CREATE TABLE IF NOT EXISTS accounts (owner text PRIMARY KEY)";
        sqlx::query(accounts).execute(&pool).await?;
        // The name distinguishes the metrics and log lines of the two.
        let outbox = Outbox::builder(store.clone(), routes_of(name)).name(name).start()?;
        let writer = PgWriter::new(&store, &outbox);
        Ok(Self { pool, store, outbox, writer })
    }

    /// Opens an account. A second call for the same owner changes nothing and writes no event.
    async fn open_account(&self, owner: &str) -> Result<(), BoxError> {
        let mut tx = self.writer.begin(&self.pool).await?;
        let insert = sqlx::query("INSERT INTO accounts VALUES ($1) ON CONFLICT DO NOTHING").bind(owner);
        if insert.execute(&mut *tx).await?.rows_affected() == 1 {
            tx.write(Event::of(&AccountOpened { owner: owner.to_owned() })?).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn close(self) {
        self.outbox.shutdown().await;
        self.store.close().await;
        self.pool.close().await;
    }
}

fn routes_of(region: &'static str) -> Routes {
    Routes::new().on(move |opened: AccountOpened, _: Delivery| async move {
        println!("{region}: welcome, {}", opened.owner);
    })
}
