//! Generics and their where-clause are kept, also in a struct that a macro generated.

use posthaste::{Event, TypedEvent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[serde(bound = "")]
struct Changed<T>(#[event(aggregate_id)] u32, T)
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static;

macro_rules! event_with_id {
    ($name:ident, $id:ty) => {
        #[derive(Serialize, Deserialize, Event)]
        struct $name {
            #[event(aggregate_id)]
            id: $id,
        }
    };
}

event_with_id!(Removed, u64);

fn main() {
    assert_eq!(Changed::<String>::TYPE, "Changed");
    let changed = Changed(7, "colour".to_owned());
    assert_eq!(changed.aggregate_id().as_deref(), Some("7"));
    assert_eq!(Removed { id: 8 }.aggregate_id().as_deref(), Some("8"));
}
