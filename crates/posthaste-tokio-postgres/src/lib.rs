//! Writes events of [Posthaste](posthaste) in transactions of [tokio_postgres], on bare clients or, with the
//! feature `deadpool`, on connections of a deadpool-postgres pool.
//!
//! ```no_run
//! use posthaste::{Delivery, Event, Outbox, Routes};
//! use posthaste_sqlx::PgStore;
//! use posthaste_tokio_postgres::PgWriter;
//! use tokio_postgres::NoTls;
//!
//! # async fn run() -> Result<(), posthaste::BoxError> {
//! let url = "postgres://localhost/shop";
//! let store = PgStore::builder(&url.parse()?).migrate().connect().await?;
//! let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| println!("{}", event.id()));
//! let outbox = Outbox::builder(store.clone(), routes).start()?;
//! let writer = PgWriter::new(&store, &outbox);
//!
//! let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
//! tokio::spawn(connection);
//!
//! let tx = writer.begin(&mut client).await?;
//! let order = tx.execute("INSERT INTO orders (id) VALUES (17)", &[]);
//! let event = Event::json("OrderPlaced", &serde_json::json!({ "order": 17 }))?;
//! let (inserted, written) = tokio::join!(order, tx.write(event)); // both in one round trip
//! inserted?;
//! written?;
//! tx.commit().await?;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The engine uses a `PgStore` of `posthaste-sqlx`, in this process or in another one. A service that leaves delivery
//! to a relay needs no store: it makes its Writer with [`PgWriter::from_context`] and
//! [`WriterContext::writer_only`](posthaste_sql_writer::WriterContext::writer_only).
//!
//! # Round trips
//!
//! An event costs no round trip of its own. [`PgTx::write`] takes `&self`, so that it can be joined with the service's
//! own statements, and the proof before COMMIT is pipelined with the COMMIT. Rows need a proof only if a savepoint was
//! open when they were written.
//!
//! The statements are prepared once per connection by a deadpool pool and by a [`PreparedClient`]. On a bare
//! [`tokio_postgres::Client`] the server parses them each time.

mod connection;
mod insert;
mod pipeline;
mod tx;
mod tx_ledger;
mod writer;
mod writer_session;

pub use connection::{PgConnection, PgTransaction, PreparedClient};
pub use tx::{PgSavepoint, PgTx};
pub use writer::PgWriter;
