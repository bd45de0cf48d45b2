//! The conformance suite of Writers.

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, OwnEnd, Scene, Script, ScriptError, Way, WriterCapabilities, WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use sqlx::{Connection as _, Executor as _};

use crate::support::*;

pub(crate) struct SqlxHarness {
    db: Db,
    scene: Scene,
    writer: Writer,
}

impl SqlxHarness {
    pub(crate) async fn new() -> Self {
        let db = Db::with_pool(2).await;
        db.execute(STATEMENTS.orders).await;
        db.execute(STATEMENTS.refuse_unwritable).await;
        let scene = Scene::start(db.store.clone());
        let writer = Writer::new(&db.store, scene.outbox());
        Self { db, scene, writer }
    }

    async fn insert_and_end(
        &self,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> Result<Result<Receipt, WriteError>, sqlx::Error> {
        let mut tx = self.db.pool.begin_with(BEGIN_SQL).await?;
        let receipt = match end {
            OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack => {
                let mut savepoint = tx.begin().await?;
                let receipt = self.writer.insert_all(&mut savepoint, events).await;
                match end {
                    OwnEnd::SavepointReleased => savepoint.commit().await?,
                    _ => savepoint.rollback().await?,
                }
                receipt
            }
            _ => self.writer.insert_all(&mut tx, events).await,
        };
        match end {
            OwnEnd::Aborted => {
                let _ = tx.execute(STATEMENTS.aborts).await.expect_err("it fails");
                // Only some databases report that there is nothing to commit.
                let _ = tx.commit().await;
            }
            OwnEnd::Rollback => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(receipt)
    }

    async fn write_to(&self, other: &Pool, event: Event, way: Way) -> Result<(), WriteError> {
        match way {
            Way::Transaction => {
                let mut tx = self.writer.begin(other).await?;
                let written = tx.write(event).await.map(drop);
                let _ = tx.commit().await;
                written
            }
            Way::Receipt => {
                let mut tx = other.begin_with(BEGIN_SQL).await.expect("a transaction");
                let inserted = self.writer.insert(&mut tx, event).await.map(drop);
                let _ = tx.commit().await;
                inserted
            }
        }
    }
}

posthaste_testkit::play_scripts!(Tx, Savepoint<'_>, execute);

async fn execute(connection: &mut Connection, statement: &'static str) -> Result<(), BoxError> {
    connection.execute(statement).await?;
    Ok(())
}

#[async_trait]
impl WriterHarness for SqlxHarness {
    fn scene(&self) -> &Scene {
        &self.scene
    }

    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
        play_script(self.writer.begin(&self.db.pool).await?, &STATEMENTS, script).await
    }

    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
        self.insert_and_end(events, end).await.expect("the transaction works")
    }

    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
        let mut connection = self.db.pool.acquire().await.expect("a connection");
        Some(self.writer.insert(&mut connection, event).await)
    }

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        let other = DatabaseCopy::of(&self.db).await;
        let answer = self.write_to(&other.pool, event, way).await;
        let stored = texts_of(&other.pool, "SELECT event_id FROM outbox_event").await.len() as u64;
        other.close().await;
        Some(Elsewhere { answer, stored })
    }

    async fn business_rows(&self) -> Option<u64> {
        Some(self.db.int("SELECT count(*) FROM orders").await.cast_unsigned())
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities::default().with_failed_statement_aborts(STATEMENTS.failed_statement_aborts)
    }

    async fn close(&self) {
        self.db.close().await;
    }
}
