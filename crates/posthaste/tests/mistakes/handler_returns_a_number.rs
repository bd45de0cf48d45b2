//! A handler that returns what is no outcome.

use posthaste::{Delivery, Routes};

fn main() {
    Routes::new().handle("OrderPlaced", async |_: Delivery| 17);
}
