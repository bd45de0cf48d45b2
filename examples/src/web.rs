//! Shared by the web services: the order, its event, and errors as HTTP responses.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use posthaste::{BoxError, Event};
use serde::{Deserialize, Serialize};

/// An order was placed.
#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced", aggregate = "Order")]
pub struct OrderPlaced {
    /// The order's number.
    #[event(aggregate_id)]
    pub order: i64,
}

/// The request body of an order.
#[derive(Debug, Deserialize)]
pub struct NewOrder {
    /// The item to order.
    pub item: String,
}

/// An order as a response body.
#[derive(Debug, Serialize)]
pub struct Order {
    /// Its number.
    pub id: i64,
    /// The item that was ordered.
    pub item: String,
    /// Whether its event was handled.
    pub confirmed: bool,
}

/// An error of the service. It is logged, and the client gets only the status 500.
#[derive(Debug)]
pub struct Failure(BoxError);

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        eprintln!("error: {:?}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
