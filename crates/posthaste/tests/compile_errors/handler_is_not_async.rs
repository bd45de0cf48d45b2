//! A handler without `async`.

use posthaste::{Delivery, Routes};

fn main() {
    Routes::new().handle("OrderPlaced", |event: Delivery| println!("{}", event.id()));
}
