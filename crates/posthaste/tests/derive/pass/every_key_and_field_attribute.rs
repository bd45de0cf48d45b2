//! Every key and both field attributes reach the trait.

use posthaste::{Event, TypedEvent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(
    type = "order.placed",
    aggregate = "Order",
    version = 2,
    topic = "orders"
)]
struct OrderPlaced {
    #[event(aggregate_id)]
    order_id: u64,
    #[event(tenant_id)]
    tenant: Option<String>,
    total_cents: u64,
}

fn main() {
    assert_eq!(OrderPlaced::TYPE, "order.placed");
    assert_eq!(OrderPlaced::AGGREGATE, "Order");
    assert_eq!(OrderPlaced::SCHEMA_VERSION, Some(2));
    assert_eq!(OrderPlaced::TOPIC, Some("orders"));

    let mut placed = OrderPlaced {
        order_id: 7,
        tenant: Some("acme".to_owned()),
        total_cents: 4_200,
    };
    assert_eq!(placed.aggregate_id().as_deref(), Some("7"));
    assert_eq!(placed.tenant_id().as_deref(), Some("acme"));

    placed.tenant = None;
    assert_eq!(placed.tenant_id(), None);
}
