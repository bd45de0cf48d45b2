//! A handler that returns a value that is not an outcome. `Handler` has one implementation per form, so rustc reports
//! the handler as a whole and never reaches `IntoOutcome`, whose note would name the return type.

use posthaste::{Delivery, Routes};

fn main() {
    Routes::new().handle("OrderPlaced", async |_: Delivery| 17);
}
