//! Plain events for tests, and the ids of delivered ones.

use std::collections::BTreeSet;

use posthaste::{Event, Recorder};

/// An event with this id and an empty JSON object.
pub fn event(id: &str) -> Event {
    Event::builder("Tested").id(id).json_text("{}").build().expect("a good event")
}

/// Events with these ids.
pub fn events(ids: &[&str]) -> Vec<Event> {
    ids.iter().map(|id| event(id)).collect()
}

/// The ids of all deliveries, sorted, with repetitions.
pub fn delivered(recorder: &Recorder) -> Vec<String> {
    let mut ids: Vec<String> = recorder.ids().iter().map(ToString::to_string).collect();
    ids.sort();
    ids
}

/// These ids as a set of texts.
pub fn set_of(ids: impl IntoIterator<Item = impl ToString>) -> BTreeSet<String> {
    ids.into_iter().map(|id| id.to_string()).collect()
}
