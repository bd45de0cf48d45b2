//! Without attributes the type's name is the event type, and the event is global.

use posthaste::{Event, GLOBAL, TypedEvent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
struct CacheCleared;

#[derive(Serialize, Deserialize, Event)]
enum Shipment {
    Left { from: String },
    Arrived,
}

fn main() {
    assert_eq!(CacheCleared::TYPE, "CacheCleared");
    assert_eq!(CacheCleared::AGGREGATE, GLOBAL);
    assert_eq!(CacheCleared::SCHEMA_VERSION, None);
    assert_eq!(CacheCleared::TOPIC, None);
    assert_eq!(CacheCleared.aggregate_id(), None);
    assert_eq!(CacheCleared.tenant_id(), None);

    assert_eq!(Shipment::TYPE, "Shipment");
    let left = Shipment::Left {
        from: "Lisbon".to_owned(),
    };
    assert_eq!(left.aggregate_id(), None);
    assert_eq!(Shipment::Arrived.tenant_id(), None);
}
