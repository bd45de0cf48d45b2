//! A transaction in a function whose error type is not `Send`. The compiler's message is about `Sized`, and nothing in
//! this crate can change it, because the error type is the caller's. The solution is `BoxError`, also in `main`.

use std::error::Error;

use posthaste::{BoxError, Event, MemoryStore, MemoryWriter, Outbox, Routes};

async fn run() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new()).start()?;
    let writer = MemoryWriter::new(&store, &outbox);
    writer
        .transaction(async |tx| {
            tx.write(Event::json_text("OrderPlaced", "{}")?).await?;
            Ok::<(), BoxError>(())
        })
        .await?;
    Ok(())
}

fn main() {
    let _ = run();
}
