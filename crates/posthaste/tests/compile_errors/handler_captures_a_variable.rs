//! A handler that uses a variable from outside. Rustc reports the capture before it checks the bound of `handle`, so no
//! note of the trait is shown. `Routes::handle` says what to do instead.

use posthaste::{Delivery, Routes};

fn main() {
    let prefix = String::from("order");
    Routes::new().handle("OrderPlaced", async move |event: Delivery| println!("{prefix} {}", event.id()));
}
