//! Two fields cannot both be the aggregate's id.

use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
struct OrderPlaced {
    #[event(aggregate_id)]
    order_id: u64,
    #[event(aggregate_id)]
    basket_id: u64,
}

fn main() {}
