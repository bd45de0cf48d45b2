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
//! One Writer serves PostgreSQL, MySQL, MariaDB and SQLite: its store or context decides which. The engine uses a store
//! of `posthaste-sqlx`, in this process or in another one. A service that leaves delivery to a relay needs no store: it
//! makes its Writer with [`SeaWriter::from_context`] and
//! [`WriterContext::writer_only`](posthaste_sql_writer::WriterContext::writer_only).
//!
//! # Cancellation
//!
//! Do not use `db.begin()` in code that can be cancelled, a web handler for example: on PostgreSQL and MySQL, sqlx then
//! leaves an open transaction in the pool. [`SeaWriter::begin`] does not.
//!
//! On MySQL and MariaDB do not drop any other call either before it has completed: sqlx 0.9.0 may then take the reply
//! to one statement for the reply to the next, and SeaORM puts such a connection back into the pool. Run the whole
//! transaction in a task of its own there.

mod database;
mod tx;
mod writer;

pub use database::AnyWriterContext;
pub use tx::{SeaSavepoint, SeaTx};
pub use writer::SeaWriter;
