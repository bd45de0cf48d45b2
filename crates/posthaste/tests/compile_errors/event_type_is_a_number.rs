//! An event type that is no text.

use posthaste::Event;

fn main() {
    let _ = Event::json_text(17, "{}");
}
