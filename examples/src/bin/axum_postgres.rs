//! The web service of [`posthaste_examples::axum_postgres`] on port 3000, until Ctrl-C or SIGTERM.
//!
//! ```sh
//! DATABASE_URL=postgres://localhost/shop cargo run -p posthaste-examples --bin axum_postgres
//! curl -i localhost:3000/orders -H 'content-type: application/json' -d '{"item": "tea"}'
//! curl localhost:3000/orders/1
//! curl localhost:3000/health
//! ```

use posthaste::BoxError;
use posthaste_examples::axum_postgres::run;
use posthaste_examples::database_url;
use sqlx::PgPool;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let pool = PgPool::connect(&database_url("DATABASE_URL")?).await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let report = run(listener, pool, stop_signal()).await?;
    println!("stopped: {report:?}");
    Ok(())
}

/// Completes after Ctrl-C, or after the SIGTERM that stops a container.
async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
