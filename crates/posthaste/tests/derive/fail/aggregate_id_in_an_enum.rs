//! An enum has no field that every variant shares.

use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
enum OrderEvent {
    Placed {
        #[event(aggregate_id)]
        order_id: u64,
    },
    Cancelled,
}

fn main() {}
