//! A handler that uses a variable from outside.

use posthaste::{Delivery, Routes};

fn main() {
    let prefix = String::from("order");
    Routes::new().handle("OrderPlaced", async move |event: Delivery| println!("{prefix} {}", event.id()));
}
