//! A transaction whose closure says nothing about its errors.

use posthaste::{Event, MemoryStore, MemoryWriter, Outbox, Routes};

async fn run() -> Result<(), posthaste::BoxError> {
    let store = MemoryStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new()).start()?;
    let writer = MemoryWriter::new(&store, &outbox);
    writer
        .transaction(async |tx| {
            tx.write(Event::json_text("OrderPlaced", "{}")?).await?;
            Ok(())
        })
        .await?;
    Ok(())
}

fn main() {
    let _ = run();
}
