//! An async function where a destination is expected.

use posthaste::{Delivery, Route};

async fn print(event: Delivery) {
    println!("{}", event.id());
}

fn main() {
    let _ = Route::event("OrderPlaced").deliver_to(print);
}
