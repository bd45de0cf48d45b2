//! The Writers' suite on SQLite.

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, End, OwnEnd, Scene, Script, ScriptError, Way, WriterCapabilities, WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_sqlx::sqlite::SqliteSavepoint;
use posthaste_sqlx::{SqliteTx, SqliteWriter};
use sqlx::{Connection as _, Executor as _, SqliteConnection, SqlitePool};

use crate::support::Db;
use crate::support::writer_script::Statements;

const STATEMENTS: Statements = Statements {
    business: "INSERT INTO orders DEFAULT VALUES",
    fails: "INSERT INTO nowhere DEFAULT VALUES",
    aborts: "INSERT OR ROLLBACK INTO orders VALUES (1), (1)",
};

struct Sqlite {
    db: Db,
    scene: Scene,
    writer: SqliteWriter,
}

impl Sqlite {
    async fn new() -> Self {
        let db = Db::with_pool(2).await;
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
        db.execute(
            "CREATE TRIGGER not_unwritable BEFORE INSERT ON outbox_event WHEN NEW.event_type = 'Unwritable'
             BEGIN SELECT RAISE(ABORT, 'not this type'); END",
        )
        .await;
        let scene = Scene::start(db.store.clone());
        let writer = db.store.writer(scene.outbox());
        Self { db, scene, writer }
    }

    async fn insert_and_end(
        &self,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> Result<Result<Receipt, WriteError>, sqlx::Error> {
        let mut tx = self.db.pool.begin_with("BEGIN IMMEDIATE").await?;
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
                let _ = tx.commit().await.expect_err("there is nothing to commit");
            }
            OwnEnd::Rollback => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(receipt)
    }
}

posthaste_testkit::play_scripts!(SqliteTx, SqliteSavepoint<'_>, STATEMENTS, execute);

async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), BoxError> {
    connection.execute(statement).await?;
    Ok(())
}

#[async_trait]
impl WriterHarness for Sqlite {
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
        let copy = self.db.dir.path().join("copy.db");
        self.db.execute(&format!("VACUUM INTO '{}'", copy.display())).await;
        let pool = SqlitePool::connect_with(self.db.options.clone().filename(&copy)).await.expect("a pool");
        let answer = posthaste_testkit::write_elsewhere!(self.writer, &pool, event, way, "BEGIN IMMEDIATE");
        let stored: i64 =
            sqlx::query_scalar("SELECT count(*) FROM outbox_event").fetch_one(&pool).await.expect("a count");
        pool.close().await;
        std::fs::remove_file(copy).expect("it goes");
        Some(Elsewhere { answer, stored: stored.cast_unsigned() })
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
    }
}

posthaste::writer_conformance!(Sqlite::new().await);
