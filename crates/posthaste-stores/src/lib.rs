//! Opens any Posthaste store by its URL: PostgreSQL, MySQL and MariaDB, SQLite, Redis, Redis Cluster, or a table
//! that another program made.
//!
//! The relay, the command line and the benchmark name their outboxes in the same way, with a [`StoreSpec`]. A service
//! that knows its database at compile time does not need this crate: it uses `posthaste-sqlx` or `posthaste-redis`.
//!
//! # Layout
//!
//! - `url`: store URLs, and which schemes there are.
//! - `spec`, `outbox_ref`: the options that name one outbox.
//! - `open`: from those options to an open store.
//! - `migrations`: the schema of a store, also where there is none yet.
//! - `secret_url`: URLs that print without their passwords.

mod error;
mod migrations;
mod open;
mod outbox_ref;
mod secret_url;
mod store_spec;
mod store_url;

pub use error::{InvalidStore, OpenStoreError};
pub use migrations::StoreMigrations;
pub use open::{OpenStore, Purpose, check, open};
pub use outbox_ref::OutboxRef;
pub use secret_url::{SecretUrl, is_webhook, redact, redact_words};
pub use store_spec::StoreSpec;
pub use store_url::{KNOWN_URLS, StoreUrl, has_known_scheme};
