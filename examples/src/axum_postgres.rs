//! A web service with an outbox in its own PostgreSQL database. Any number of instances may run: [`app`] takes orders,
//! [`routes`] handles their events, [`run`] starts and stops both.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use posthaste::{BoxError, Delivery, Event, HandlerResult, Outbox, Routes, ShutdownReport, Store as _};
use posthaste_sqlx::{PgStore, PgWriter};
use serde_json::json;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::web::{Failure, NewOrder, Order, OrderPlaced};

/// Serves until `stop` completes. HTTP stops first, so that no new events are written; then the outbox stops, after it
/// has delivered what is queued.
pub async fn run(
    listener: TcpListener,
    pool: PgPool,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<ShutdownReport, BoxError> {
    let store = PgStore::builder(&pool.connect_options()).migrate().connect().await?;
    create_tables(&pool).await?;
    let outbox = Outbox::builder(store.clone(), routes(pool.clone())).start()?;
    let writer = PgWriter::new(&store, &outbox);
    let app = app(Shop { pool: pool.clone(), writer, store: store.clone() });

    let served = axum::serve(listener, app).with_graceful_shutdown(stop).await;

    let report = outbox.shutdown().await;
    store.close().await;
    pool.close().await;
    served?;
    Ok(report)
}

/// Creates the service's own tables; the outbox creates its own. A real service has migrations for this.
async fn create_tables(pool: &PgPool) -> Result<(), sqlx::Error> {
    let orders = "CREATE TABLE IF NOT EXISTS orders (
        id        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        item      text    NOT NULL,
        confirmed boolean NOT NULL DEFAULT false
    )";
    sqlx::query(orders).execute(pool).await.map(drop)
}

/// The handlers. A buyer gets a confirmation of each order; here it is only noted in the table.
pub fn routes(pool: PgPool) -> Routes {
    Routes::new().on(move |placed: OrderPlaced, _: Delivery| {
        let pool = pool.clone();
        // An error is a failed attempt, which is tried again later.
        async move { confirm(&pool, placed.order).await }
    })
}

/// Idempotent, because it may run more than once for the same order, also on two instances at the same time.
async fn confirm(pool: &PgPool, order: i64) -> HandlerResult {
    sqlx::query("UPDATE orders SET confirmed = true WHERE id = $1").bind(order).execute(pool).await?;
    println!("order {order} is confirmed");
    Ok(())
}

/// `POST /orders`, `GET /orders/{id}` and `GET /health`.
pub fn app(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(place_order))
        .route("/orders/{id}", get(show_order))
        .route("/health", get(health))
        .with_state(shop)
}

/// The state of every request. All of it is cheap to clone.
#[derive(Clone, Debug)]
pub struct Shop {
    pool: PgPool,
    writer: PgWriter,
    store: PgStore,
}

/// Stores the order and its event in one transaction. axum drops this future when the client disconnects. Wherever that
/// happens, either both are stored or neither is.
async fn place_order(
    State(shop): State<Shop>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failure> {
    let mut tx = shop.writer.begin(&shop.pool).await?;
    let insert = sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id").bind(&new.item);
    let id = insert.fetch_one(&mut *tx).await?;
    tx.write(Event::of(&OrderPlaced { order: id })?).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(Order { id, item: new.item, confirmed: false })))
}

async fn show_order(State(shop): State<Shop>, Path(id): Path<i64>) -> Result<Response, Failure> {
    let query = sqlx::query_as("SELECT item, confirmed FROM orders WHERE id = $1").bind(id);
    Ok(match query.fetch_optional(&shop.pool).await? {
        Some((item, confirmed)) => Json(Order { id, item, confirmed }).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

/// Returns 200 if the database works. The age of the oldest event is only reported: late events are no reason to remove
/// an instance that can still take orders.
async fn health(State(shop): State<Shop>) -> Response {
    const STORE_TIMEOUT: Duration = Duration::from_secs(2);
    match timeout(STORE_TIMEOUT, shop.store.oldest_pending(None)).await {
        Ok(Ok(oldest)) => {
            Json(json!({ "oldest_event_ms": oldest.unwrap_or_default().as_millis() })).into_response()
        }
        Ok(Err(_)) | Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
