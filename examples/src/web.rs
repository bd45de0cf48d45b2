//! What both web services have in common, whatever the database: the order, its event, and errors as
//! HTTP answers.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use posthaste::{BoxError, Event};
use serde::{Deserialize, Serialize};

/// Somebody has ordered something.
#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced", aggregate = "Order")]
pub struct OrderPlaced {
    /// The order's number.
    #[event(aggregate_id)]
    pub order: i64,
}

/// What a buyer sends.
#[derive(Debug, Deserialize)]
pub struct NewOrder {
    /// What is ordered.
    pub item: String,
}

/// What a buyer gets to see.
#[derive(Debug, Serialize)]
pub struct Order {
    /// Its number.
    pub id: i64,
    /// What was ordered.
    pub item: String,
    /// Whether its event was handled.
    pub confirmed: bool,
}

/// Whatever goes wrong is the service's own fault, and nothing for the caller to read.
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
