//! A web service with an outbox in its own SQLite file: [`app`] takes orders, [`routes`] handles their events, [`run`]
//! starts and stops both.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use posthaste::{BoxError, Delivery, Event, HandlerResult, Outbox, Routes, ShutdownReport};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use sqlx::SqlitePool;
use tokio::net::TcpListener;

use crate::web::{Failure, NewOrder, Order, OrderPlaced};

/// Serves until `stop` completes. HTTP stops first, so that no new events are written; then the outbox stops, after it
/// has delivered what is queued.
pub async fn run(
    listener: TcpListener,
    pool: SqlitePool,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<ShutdownReport, BoxError> {
    create_tables(&pool).await?;
    let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
    let outbox = Outbox::builder(store.clone(), routes(pool.clone())).start()?;
    let app = app(pool.clone(), SqliteWriter::new(&store, &outbox));

    let served = axum::serve(listener, app).with_graceful_shutdown(stop).await;

    let report = outbox.shutdown().await;
    store.close().await;
    pool.close().await;
    served?;
    Ok(report)
}

/// Creates the service's own tables; the outbox creates its own.
pub async fn create_tables(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    let orders = "CREATE TABLE IF NOT EXISTS orders (
        id        INTEGER PRIMARY KEY,
        item      TEXT NOT NULL,
        confirmed BOOLEAN NOT NULL DEFAULT FALSE
    )";
    sqlx::query(orders).execute(pool).await.map(drop)
}

/// The handlers. A buyer gets a confirmation of each order; here it is only noted in the table.
pub fn routes(pool: SqlitePool) -> Routes {
    Routes::new().on(move |placed: OrderPlaced, _: Delivery| {
        let pool = pool.clone();
        // An error is a failed attempt, which is tried again later.
        async move { confirm(&pool, placed.order).await }
    })
}

/// Idempotent, because it may run more than once for the same order.
async fn confirm(pool: &SqlitePool, order: i64) -> HandlerResult {
    sqlx::query("UPDATE orders SET confirmed = TRUE WHERE id = ?").bind(order).execute(pool).await?;
    println!("order {order} is confirmed");
    Ok(())
}

/// `POST /orders` and `GET /orders/{id}`.
pub fn app(pool: SqlitePool, writer: SqliteWriter) -> Router {
    Router::new()
        .route("/orders", post(place_order))
        .route("/orders/{id}", get(show_order))
        .with_state(Shop { pool, writer })
}

#[derive(Clone, Debug)]
struct Shop {
    pool: SqlitePool,
    writer: SqliteWriter,
}

/// Stores the order and its event in one transaction.
async fn place_order(
    State(shop): State<Shop>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failure> {
    let mut tx = shop.writer.begin(&shop.pool).await?;
    let inserted =
        sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(&new.item).execute(&mut *tx).await?;
    let order = Order { id: inserted.last_insert_rowid(), item: new.item, confirmed: false };
    tx.write(Event::of(&OrderPlaced { order: order.id })?).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(order)))
}

async fn show_order(State(shop): State<Shop>, Path(id): Path<i64>) -> Result<Response, Failure> {
    let query = sqlx::query_as("SELECT item, confirmed FROM orders WHERE id = ?").bind(id);
    Ok(match query.fetch_optional(&shop.pool).await? {
        Some((item, confirmed)) => Json(Order { id, item, confirmed }).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}
