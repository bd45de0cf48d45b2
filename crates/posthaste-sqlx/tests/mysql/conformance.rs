//! The conformance suite of stores on MySQL or MariaDB, also on a table with another name.

use crate::cases::conformance::StoreHarness;

mod usual {
    use super::*;
    posthaste::store_conformance!(
        StoreHarness::new("outbox_event").await,
        #[ignore = "needs MariaDB: cargo xtask test"]
    );
}

mod reserved_word_as_table {
    use super::*;
    posthaste::store_conformance!(
        StoreHarness::new("Order").await,
        #[ignore = "needs MariaDB: cargo xtask test"]
    );
}
