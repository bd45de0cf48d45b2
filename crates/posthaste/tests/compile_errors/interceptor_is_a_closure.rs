//! A closure where an interceptor is expected.

use posthaste::{Delivery, MemoryStore, Outbox, Routes};

fn main() {
    let _ = Outbox::builder(MemoryStore::new(), Routes::new()).interceptor(|_: &Delivery| Ok(()));
}
