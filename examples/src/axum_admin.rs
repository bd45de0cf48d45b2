//! A web service that serves the admin API of its own outbox beside its own routes. Health checks for probes and the
//! API for operators are below `/internal/outbox`.
//!
//! `posthaste top --relay http://127.0.0.1:3000/internal/outbox` and `posthaste tail --relay …` work with it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use posthaste::{BoxError, Outbox, ShutdownReport};
use posthaste_admin::{AdminApi, AdminOutbox, Role, Token};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use sqlx::SqlitePool;
use tokio::net::TcpListener;

use crate::axum_sqlite::{app, create_tables, routes};

/// Serves until `stop` completes. Operators authenticate with `token`; probes need none.
pub async fn run(
    listener: TcpListener,
    pool: SqlitePool,
    token: &str,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<ShutdownReport, BoxError> {
    create_tables(&pool).await?;
    let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
    let admin = Arc::new(AdminOutbox::open("shop", vec!["Order.OrderPlaced".to_owned()], store.clone()));
    // The feed is the source of `posthaste tail`.
    let outbox =
        Outbox::builder(store.clone(), routes(pool.clone())).single_node().interceptor(admin.feed().clone());
    let outbox = outbox.start()?;

    let api = AdminApi::new().outbox(admin).token(Token::new("on-call", Role::Operator, token));
    let app = Router::new()
        .nest("/internal/outbox", posthaste_admin::router(api))
        .merge(app(pool.clone(), SqliteWriter::new(&store, &outbox)));
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let served = axum::serve(listener, app).with_graceful_shutdown(stop).await;

    let report = outbox.shutdown().await;
    store.close().await;
    pool.close().await;
    served?;
    Ok(report)
}
