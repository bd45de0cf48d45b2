//! A handler with a state, and routes without one.

use posthaste::{Delivery, Routes, State};

async fn print(State(prefix): State<String>, event: Delivery) {
    println!("{prefix} {}", event.id());
}

fn main() {
    Routes::new().handle("OrderPlaced", print);
}
