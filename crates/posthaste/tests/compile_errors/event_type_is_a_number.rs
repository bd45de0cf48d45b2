//! An event type that is not text.

use posthaste::Event;

fn main() {
    let _ = Event::json_text(17, "{}");
}
