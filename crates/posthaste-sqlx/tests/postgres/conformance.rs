//! The conformance suite of stores on PostgreSQL: directly, on a table with another name, and through PgBouncer in
//! transaction mode.

use crate::cases::conformance::StoreHarness;
use crate::support::*;

async fn behind_pgbouncer() -> StoreHarness {
    let place = Place::new().await;
    let builder = place.builder_on(&pgbouncer()).pgbouncer();
    // What a service behind PgBouncer has to set for its own statements.
    StoreHarness::on(place, builder, pgbouncer().extra_float_digits(None), "outbox_event").await
}

mod direct {
    use super::*;
    posthaste::store_conformance!(
        StoreHarness::new("outbox_event").await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}

mod reserved_word_as_table {
    use super::*;
    posthaste::store_conformance!(
        StoreHarness::new("Order").await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}

mod through_pgbouncer {
    use super::*;
    posthaste::store_conformance!(
        behind_pgbouncer().await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}
