//! More than one worker in strict order.

use posthaste::{MemoryStore, Outbox, Routes};

fn main() {
    let _ = Outbox::builder(MemoryStore::new(), Routes::new()).strict().workers(4);
}
