//! What the database is called is no store: a crate for the database opens one.

use posthaste::{Outbox, Routes};

fn main() {
    let _ = Outbox::builder("postgres://localhost/shop", Routes::new());
}
