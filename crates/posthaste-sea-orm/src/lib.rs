//! Writes events of [Posthaste](posthaste) in transactions of [SeaORM 2](sea_orm).
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
//! use posthaste_sea_orm::SeaWriter;
//! use posthaste_sqlx::SqliteStore;
//! use sea_orm::{ConnectionTrait, Database};
//!
//! # #[tokio::main] async fn main() -> Result<(), BoxError> {
//! # let dir = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}?mode=rwc", dir.path().join("shop.db").display());
//! let db = Database::connect(&url).await?;
//! db.execute_unprepared("CREATE TABLE orders (item TEXT)").await?;
//!
//! let store = SqliteStore::builder(&url.parse()?).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = SeaWriter::new(&store, &outbox);
//!
//! let tx = writer.begin(&db).await?;
//! tx.execute_unprepared("INSERT INTO orders VALUES ('tea')").await?; // or order.insert(&*tx)
//! tx.write(Event::json("OrderPlaced", &serde_json::json!({ "item": "tea" }))?).await?;
//! tx.commit().await?;
//! # outbox.idle().await?;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! One Writer serves PostgreSQL, MySQL, MariaDB and SQLite: whichever the context belongs to. The engine stands on
//! a store of `posthaste-sqlx`, here or in another process. A service that leaves delivery to a relay needs no
//! store: [`WriterContext::writer_only`](posthaste_sql_writer::WriterContext::writer_only).
//!
//! Do not use `db.begin()` in code that can be cancelled, a web handler for example: on PostgreSQL and MySQL
//! the driver beneath leaves an open transaction in the pool then. [`SeaWriter::begin`] leaves none. On MySQL and
//! MariaDB no other call may be dropped half way either: sqlx 0.9.0 loses its place in the conversation with the
//! server, and SeaORM lends such a connection again. Run the whole transaction in a task of its own there.

mod database;
mod tx;
mod writer;

pub use database::AnyWriterContext;
pub use tx::{SeaSavepoint, SeaTx};
pub use writer::SeaWriter;
