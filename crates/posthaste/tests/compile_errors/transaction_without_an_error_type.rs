//! A transaction whose closure does not name its error type. The solution is `Ok::<(), BoxError>(())`.

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
