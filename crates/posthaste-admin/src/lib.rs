//! HTTP administration of a Posthaste outbox: health, metrics, and a JSON API with tokens and roles.
//!
//! [`router`] builds an [`axum::Router`] that any axum service can mount beside its own routes. The relay serves the
//! same router with [`serve`]. [`Client`] calls either. [`wire`] has the documents that client and router exchange.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use posthaste::{Delivery, MemoryStore, Outbox, Routes};
//! use posthaste_admin::{AdminApi, AdminOutbox, Role, Token};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), posthaste::BoxError> {
//! let store = MemoryStore::new();
//! let admin = Arc::new(AdminOutbox::open("shop", vec!["OrderPlaced".to_owned()], store.clone()));
//! let routes = Routes::new().handle("OrderPlaced", async |_: Delivery| {});
//! let outbox = Outbox::builder(store, routes).single_node().interceptor(admin.feed().clone()).start()?;
//!
//! let api = AdminApi::new().outbox(admin).token(Token::new("ann", Role::Operator, "a-long-random-token"));
//! let app: Router = Router::new().nest("/outbox", posthaste_admin::router(api));
//! # let _ = app;
//! # outbox.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The crate contains no SQL: it uses [`posthaste::Admin`]. If the configuration has tokens, every path needs one,
//! except `/health/…`, `/metrics` and `/openapi.json`, which contain no payload, no event id and no secret. Without
//! tokens, every path serves only requests from this machine.
//!
//! # Features
//!
//! `server` (default) has the router, `client` (default) has the client. [`wire`] needs neither.

#[cfg(feature = "client")]
mod client;
mod dead_action;
pub mod json_text;
mod secret;
#[cfg(feature = "server")]
mod server;
pub mod terminal_escape;
pub mod wire;

use std::error::Error;

#[cfg(feature = "client")]
pub use client::{Client, ClientError, MAX_DOCUMENT_BYTES, TailStream};
pub use dead_action::DeadAction;
pub use secret::Secret;
#[cfg(feature = "server")]
pub use server::{AdminApi, AdminOutbox, DeliveryFeed, Role, Token, router, serve};

/// The text of an error and its causes on one line, for a log. Control characters are escaped.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    terminal_escape::one_line(&text)
}
