//! A type of one's own is an event only with `#[derive(Event)]`.

use posthaste::{Delivery, Routes};

struct OrderPlaced;

fn main() {
    let _ = Routes::new().on(async |_: OrderPlaced, _: Delivery| ());
}
