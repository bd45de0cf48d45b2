//! The Writers' suite on PostgreSQL.

use async_trait::async_trait;
use posthaste::conformance::{
    End, OwnEnd, SavepointEnd, Scene, Script, ScriptError, Step, WriterCapabilities, WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_sqlx::postgres::PgSavepoint;
use posthaste_sqlx::{PgTx, PgWriter};
use sqlx::{Connection as _, Executor as _};

use crate::support::Db;
use crate::support::script::Statements;

const STATEMENTS: Statements =
    Statements { business: "INSERT INTO orders DEFAULT VALUES", fails: "SELECT 1/0", aborts: "SELECT 1/0" };

struct Postgres {
    db: Db,
    scene: Scene,
    writer: PgWriter,
}

impl Postgres {
    async fn new() -> Self {
        let db = Db::with_pool(2).await;
        db.execute("CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY)").await;
        let scene = Scene::start(db.store.clone());
        let writer = db.store.writer(scene.outbox());
        Self { db, scene, writer }
    }

    async fn insert_and_end(
        &self,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> Result<Result<Receipt, WriteError>, sqlx::Error> {
        let mut tx = self.db.pool.begin().await?;
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
        if end == OwnEnd::Aborted {
            let _ = tx.execute(STATEMENTS.aborts).await.expect_err("it fails");
        }
        match end {
            OwnEnd::Rollback => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(receipt)
    }
}

crate::play_scripts!(PgTx, PgSavepoint, STATEMENTS);

#[async_trait]
impl WriterHarness for Postgres {
    fn scene(&self) -> &Scene {
        &self.scene
    }

    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
        let mut tx = self.writer.begin(&self.db.pool).await?;
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
        let mut connection = self.db.pool.acquire().await.expect("a connection");
        Some(self.writer.insert(&mut connection, event).await)
    }

    async fn business_rows(&self) -> Option<u64> {
        Some(self.db.int("SELECT count(*) FROM orders").await.cast_unsigned())
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities { failed_statement_aborts: true }
    }

    async fn close(&self) {
        self.db.pool.close().await;
        self.db.store.close().await;
        crate::support::drop_schema(&self.db.schema).await;
    }
}

posthaste::writer_conformance!(Postgres::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
