//! A handler that takes a reference.

use posthaste::{Delivery, Routes};

async fn print(event: &Delivery) {
    println!("{}", event.id());
}

fn main() {
    Routes::new().handle("OrderPlaced", print);
}
