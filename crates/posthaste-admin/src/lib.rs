//! HTTP administration of a Posthaste outbox: health, metrics, and a JSON API with tokens and roles.
//!
//! [`router`] makes an [`axum::Router`] that any axum service can mount beside its own routes; the relay serves the
//! same router with [`serve`]. [`Client`] speaks to either. [`wire`] has the documents that both exchange.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use posthaste::{Delivery, MemoryStore, Outbox, Routes};
//! use posthaste_admin::{AdminApi, AdminOutbox, Role, Token};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
//! It contains no SQL: it uses [`posthaste::Admin`]. `/health/…` and `/metrics` carry no payload, key or id and need no
//! token; everything else does. Without tokens only requests from this machine are served.
//!
//! # Features
//!
//! `server` has the router, `client` the client; both are on by default. Without them the documents remain.

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

/// An error with its causes on one line, for a log: control characters are escaped.
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
