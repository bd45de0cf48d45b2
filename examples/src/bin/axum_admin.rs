//! The web service of [`posthaste_examples::axum_admin`] on port 3000, until Ctrl-C.
//!
//! ```sh
//! curl -i localhost:3000/orders -H 'content-type: application/json' -d '{"item": "tea"}'
//! curl localhost:3000/internal/outbox/health/ready
//! curl localhost:3000/internal/outbox/api/v1/outboxes/shop/stats -H 'authorization: Bearer a-long-random-token'
//! ```

use posthaste::BoxError;
use posthaste_examples::axum_admin::run;
use sqlx::SqlitePool;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let pool = SqlitePool::connect("sqlite:orders.db?mode=rwc").await?;
    let token = std::env::var("ADMIN_TOKEN").unwrap_or_else(|_| "a-long-random-token".to_owned());
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let report = run(listener, pool, &token, async { drop(tokio::signal::ctrl_c().await) }).await?;
    println!("stopped: {report:?}");
    Ok(())
}
