//! A URL instead of a store: the crate of the database opens one.

use posthaste::{Outbox, Routes};

fn main() {
    let _ = Outbox::builder("postgres://localhost/shop", Routes::new());
}
