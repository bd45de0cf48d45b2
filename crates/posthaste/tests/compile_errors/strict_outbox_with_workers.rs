//! More than one worker in strict mode.

use posthaste::{MemoryStore, Outbox, Routes};

fn main() {
    let _ = Outbox::builder(MemoryStore::new(), Routes::new()).strict().workers(4);
}
