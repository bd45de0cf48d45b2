//! A type is an event only with `#[derive(Event)]`. `Handler` has one implementation per form, so rustc reports the
//! handler as a whole and never reaches `TypedEvent`, whose note would name the derive.

use posthaste::{Delivery, Routes};

struct OrderPlaced;

fn main() {
    let _ = Routes::new().on(async |_: OrderPlaced, _: Delivery| ());
}
