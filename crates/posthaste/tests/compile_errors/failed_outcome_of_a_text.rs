//! A text instead of an error: `Outcome::retry("busy")` accepts both.

use posthaste::{Delivery, Outcome};

async fn charge(_: Delivery) -> Outcome {
    Outcome::Failed("busy")
}

fn main() {
    let _ = charge;
}
