//! The conformance suite of stores on SQLite: in a file, in memory, and on a table with another name.

use crate::cases::conformance::StoreHarness;
use crate::support::*;

async fn in_memory() -> StoreHarness {
    let options: Options = "sqlite::memory:".parse().expect("a good URL");
    StoreHarness::on(Place::new().await, Store::builder(&options), options, "outbox_event").await
}

mod file {
    use super::*;
    posthaste::store_conformance!(StoreHarness::new("outbox_event").await);
}

mod memory {
    use super::*;
    posthaste::store_conformance!(in_memory().await);
}

mod reserved_word_as_table {
    use super::*;
    posthaste::store_conformance!(StoreHarness::new("Order").await);
}
