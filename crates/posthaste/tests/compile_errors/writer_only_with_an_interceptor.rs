//! An interceptor for an outbox that delivers nothing.

use posthaste::{MemoryStore, Outbox, Routes, interceptor};

fn main() {
    let builder = Outbox::builder(MemoryStore::new(), Routes::new()).writer_only();
    let _ = builder.interceptor(interceptor::before(|_| Ok(())));
}
