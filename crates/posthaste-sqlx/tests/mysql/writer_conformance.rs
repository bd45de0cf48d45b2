//! The Writers' suite on MySQL and MariaDB.

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, End, OwnEnd, Scene, Script, ScriptError, Way, WriterCapabilities, WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_sqlx::mysql::MySqlSavepoint;
use posthaste_sqlx::{MySqlTx, MySqlWriter};
use sqlx::{Connection as _, Executor as _, MySqlConnection};

use crate::support::Db;
use crate::support::writer_script::Statements;

/// A deadlock ends a transaction as the last one does: it is rolled back, and a statement has failed.
const STATEMENTS: Statements = Statements {
    business: "INSERT INTO orders () VALUES ()",
    fails: "SELECT * FROM nowhere",
    aborts: "ROLLBACK; SELECT * FROM nowhere",
};

struct MySql {
    db: Db,
    scene: Scene,
    writer: MySqlWriter,
}

impl MySql {
    async fn new() -> Self {
        let db = Db::with_pool(2).await;
        db.execute("CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY)").await;
        db.execute("ALTER TABLE outbox_event ADD CHECK (event_type <> 'Unwritable')").await;
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

posthaste_testkit::play_scripts!(MySqlTx, MySqlSavepoint<'_>, STATEMENTS, execute);

async fn execute(connection: &mut MySqlConnection, statement: &'static str) -> Result<(), BoxError> {
    connection.execute(statement).await?;
    Ok(())
}

#[async_trait]
impl WriterHarness for MySql {
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

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        // It says of itself that it is as old as this one, as a copy does.
        let other = Db::with_pool(1).await;
        let born = self.db.text("SELECT applied_at FROM outbox_event_schema").await.expect("a time");
        other.execute(&format!("UPDATE outbox_event_schema SET applied_at = '{born}'")).await;
        let answer =
            posthaste_testkit::write_elsewhere!(self.writer, &other.pool, event, way, "START TRANSACTION");
        let stored = other.int("SELECT count(*) FROM outbox_event").await.cast_unsigned();
        other.close().await;
        Some(Elsewhere { answer, stored })
    }

    async fn business_rows(&self) -> Option<u64> {
        Some(self.db.int("SELECT count(*) FROM orders").await.cast_unsigned())
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities { failed_statement_aborts: false }
    }

    async fn close(&self) {
        self.db.pool.close().await;
        self.db.store.close().await;
        crate::support::drop_database(&self.db.name).await;
    }
}

posthaste::writer_conformance!(MySql::new().await, #[ignore = "needs MariaDB: cargo xtask test"]);
