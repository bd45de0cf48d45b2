//! The web service of [`posthaste_examples::axum_sqlite`] on port 3000, until Ctrl-C.
//!
//! ```sh
//! curl -i localhost:3000/orders -H 'content-type: application/json' -d '{"item": "tea"}'
//! curl localhost:3000/orders/1
//! ```

use posthaste::BoxError;
use posthaste_examples::axum_sqlite::run;
use sqlx::SqlitePool;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let pool = SqlitePool::connect("sqlite:orders.db?mode=rwc").await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let report = run(listener, pool, ctrl_c()).await?;
    println!("stopped: {report:?}");
    Ok(())
}

/// Completes after Ctrl-C, or immediately if the system cannot report it.
async fn ctrl_c() {
    let _ = tokio::signal::ctrl_c().await;
}
