//! Writes events of [Posthaste](posthaste) in transactions of [rusqlite].
//!
//! ```
//! use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
//! use posthaste_rusqlite::SqliteWriter;
//! use posthaste_sqlx::SqliteStore;
//!
//! # #[tokio::main] async fn main() -> Result<(), BoxError> {
//! # let dir = tempfile::tempdir()?;
//! # let file = dir.path().join("shop.db");
//! # let url = format!("sqlite:{}?mode=rwc", file.display());
//! let store = SqliteStore::builder(&url.parse()?).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = SqliteWriter::new(&store, &outbox);
//!
//! let mut connection = rusqlite::Connection::open(file)?;
//! connection.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;
//!
//! let tx = writer.begin(&mut connection)?;
//! tx.execute("INSERT INTO orders (id) VALUES (17)", [])?;
//! tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": 17 }))?)?;
//! tx.commit()?;
//! # outbox.idle().await?;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The engine uses a `SqliteStore` of `posthaste-sqlx`, in this process or in another one. A service that leaves
//! delivery to a relay needs no store: it makes its Writer with [`SqliteWriter::from_context`] and
//! [`WriterContext::writer_only`](posthaste_sql_writer::WriterContext::writer_only).
//!
//! Every call blocks its thread, as all calls of rusqlite do. In an async service make them inside `spawn_blocking`,
//! for example. Events can be written on any thread; no Tokio runtime is needed there.
//!
//! SQLite must be 3.51 or newer; the feature `bundled` compiles it in. A program can link SQLite only once, so this
//! crate uses the newest version of rusqlite that shares its SQLite with sqlx.

mod in_transaction;
mod insert;
mod tx;
mod writer;

pub use in_transaction::InTransaction;
pub use tx::{SqliteSavepoint, SqliteTx};
pub use writer::SqliteWriter;
