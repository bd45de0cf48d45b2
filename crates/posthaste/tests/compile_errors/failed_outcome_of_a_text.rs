//! A text where an outcome holds an error: `Outcome::retry("busy")` takes both.

use posthaste::{Delivery, Outcome};

async fn charge(_: Delivery) -> Outcome {
    Outcome::Failed("busy")
}

fn main() {
    let _ = charge;
}
