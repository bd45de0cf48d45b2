//! Opens any Posthaste store by its URL: PostgreSQL, MySQL, MariaDB, SQLite, Redis, Redis Cluster, or a foreign table
//! on PostgreSQL, MySQL and MariaDB.
//!
//! The relay, the command line and the benchmark name their outboxes with a [`StoreSpec`] and open them with [`open`].
//! A service that knows its database at compile time does not need this crate: it uses `posthaste-sqlx` or
//! `posthaste-redis` directly.
//!
//! ```no_run
//! use posthaste_stores::{Purpose, SecretUrl, StoreSpec};
//!
//! # async fn look() -> Result<(), posthaste::BoxError> {
//! let spec = StoreSpec::new(SecretUrl::new("postgres://shop@db.example/shop"));
//! let store = posthaste_stores::open(&spec, Purpose::Look).await?;
//! println!("{} events are DEAD", store.admin().stats().await?.dead);
//! store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! - `store_url`: parses store URLs; the only module that knows the schemes.
//! - `store_spec`: the options that name one outbox. `outbox_ref`: table and schema, as people write them.
//! - `open`: opens the store that a `StoreSpec` names.
//! - `migrations`: prints, checks and applies the schema, also before the outbox table exists.
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
