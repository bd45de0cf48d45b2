//! A handler that takes state, and routes without state.

use posthaste::{Delivery, Routes, State};

async fn print(State(prefix): State<String>, event: Delivery) {
    println!("{prefix} {}", event.id());
}

fn main() {
    Routes::new().handle("OrderPlaced", print);
}
