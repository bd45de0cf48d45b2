//! The Writer suite on the Writer of the memory store.

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, End, OwnEnd, SavepointEnd, Scene, Script, ScriptError, Step, Way, WriterCapabilities,
    WriterHarness,
};
use posthaste::memory::{MemoryConnection, MemorySavepoint, MemoryStore, MemoryTx};
use posthaste::{Admin as _, Event, EventId, MemoryWriter, Receipt, StoreError, WriteError};

struct Memory {
    store: MemoryStore,
    scene: Scene,
    writer: MemoryWriter,
}

impl Memory {
    fn new() -> Self {
        let store = MemoryStore::new();
        let scene = Scene::start(store.clone());
        let writer = MemoryWriter::new(&store, scene.outbox());
        Self { store, scene, writer }
    }

    async fn insert_and_end(
        &self,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> Result<Result<Receipt, WriteError>, StoreError> {
        let mut connection = self.store.connect();
        connection.begin().await?;
        let in_savepoint = matches!(end, OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack);
        if in_savepoint {
            connection.savepoint().await?;
        }
        let receipt = self.writer.insert_all(&mut connection, events).await;
        match end {
            OwnEnd::SavepointReleased => connection.release_savepoint().await?,
            OwnEnd::SavepointRolledBack => connection.rollback_to_savepoint().await?,
            OwnEnd::Aborted => connection.abort(),
            OwnEnd::Commit | OwnEnd::Rollback => {}
        }
        match end {
            OwnEnd::Rollback => connection.rollback().await?,
            _ => connection.commit().await.expect("the commit returns Ok"),
        }
        Ok(receipt)
    }
}

macro_rules! play_steps {
    ($play:ident, $tx:ident, $steps:ident, $written:ident) => {{
        for step in $steps {
            match step {
                Step::Write(event) => $written.extend($tx.write(event).await?),
                Step::WriteAll(events) => $written.extend($tx.write_all(events).await?),
                Step::FailedWrite(event) => {
                    $tx.fail_next_insert();
                    let _ = $tx.write(event).await.expect_err("it is refused");
                }
                Step::Savepoint { steps, end } => {
                    let mut inner = $tx.savepoint().await?;
                    Box::pin(play_inside(&mut inner, steps, $written)).await?;
                    match end {
                        SavepointEnd::Release => inner.release().await?,
                        SavepointEnd::Rollback => inner.rollback().await?,
                        SavepointEnd::Drop => drop(inner),
                    }
                }
                Step::Undone(steps) => {
                    MemoryConnection::savepoint($tx).await?;
                    Box::pin($play($tx, steps, $written)).await?;
                    $tx.rollback_to_savepoint().await?;
                }
                // There is no other table.
                Step::Business => {}
                Step::FailedStatement | Step::Abort => $tx.abort(),
            }
        }
        Ok(())
    }};
}

async fn play(tx: &mut MemoryTx, steps: Vec<Step>, written: &mut Vec<EventId>) -> Result<(), ScriptError> {
    play_steps!(play, tx, steps, written)
}

async fn play_inside(
    tx: &mut MemorySavepoint<'_>,
    steps: Vec<Step>,
    written: &mut Vec<EventId>,
) -> Result<(), ScriptError> {
    play_steps!(play_inside, tx, steps, written)
}

#[async_trait]
impl WriterHarness for Memory {
    fn scene(&self) -> &Scene {
        &self.scene
    }

    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
        let mut tx = self.writer.begin().await?;
        let mut written = Vec::new();
        play(&mut tx, script.steps, &mut written).await?;
        match script.end {
            End::Commit => tx.commit().await?,
            End::Rollback => tx.rollback().await?,
            End::Drop => drop(tx),
        }
        Ok(written)
    }

    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
        self.insert_and_end(events, end).await.expect("the transaction works")
    }

    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
        Some(self.writer.insert(&mut self.store.connect(), event).await)
    }

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        if way == Way::Transaction {
            return None;
        }
        let other = MemoryStore::new();
        let mut connection = other.connect();
        connection.begin().await.expect("a transaction");
        let answer = self.writer.insert(&mut connection, event).await.map(drop);
        connection.commit().await.expect("the commit works");
        Some(Elsewhere { answer, stored: other.stats().await.expect("stats").new })
    }

    async fn business_rows(&self) -> Option<u64> {
        None
    }

    /// As on PostgreSQL, on purpose.
    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities::default().with_failed_statement_aborts(true)
    }

    async fn close(&self) {}
}

posthaste::writer_conformance!(Memory::new());
