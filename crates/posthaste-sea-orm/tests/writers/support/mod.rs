//! The harness of the Writer conformance suite on SeaORM, for any database.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::pin::Pin;

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, OwnEnd, Scene, Script, ScriptError, Way, WriterCapabilities, WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_sea_orm::{SeaSavepoint, SeaTx, SeaWriter};
use posthaste_testkit::unique_name;
pub use posthaste_testkit::writer_script::Statements;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, TransactionTrait,
};

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Cleanup = Box<dyn Fn() -> Later<()> + Send + Sync>;

pub struct Sea {
    pub db: DatabaseConnection,
    pub scene: Scene,
    pub writer: SeaWriter,
    pub statements: Statements,
    /// Creates another database with an outbox of the same name: a copy of the first, if the database can copy.
    pub copy: Box<dyn Fn() -> Later<DatabaseConnection> + Send + Sync>,
    /// Closes the store and removes its database.
    pub cleanup: Cleanup,
}

posthaste_testkit::play_scripts!(SeaTx, SeaSavepoint<'_>, execute);

async fn execute(tx: &DatabaseTransaction, statement: &str) -> Result<(), BoxError> {
    tx.execute_unprepared(statement).await?;
    Ok(())
}

impl Sea {
    async fn insert_and_end(
        &self,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> Result<Result<Receipt, WriteError>, sea_orm::DbErr> {
        let tx = self.db.begin().await?;
        let receipt = match end {
            OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack => {
                let savepoint = tx.begin().await?;
                let receipt = self.writer.insert_nested(&savepoint, events).await;
                match end {
                    OwnEnd::SavepointReleased => savepoint.commit().await?,
                    _ => savepoint.rollback().await?,
                }
                receipt
            }
            _ => self.writer.insert_all(&tx, events).await,
        };
        if end == OwnEnd::Aborted {
            let _ = tx.execute_unprepared(self.statements.aborts).await.expect_err("it fails");
            // The driver may return `Ok` although the transaction was aborted.
            let _ = tx.commit().await;
            return Ok(receipt);
        }
        match end {
            OwnEnd::Rollback => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(receipt)
    }
}

#[async_trait]
impl WriterHarness for Sea {
    fn scene(&self) -> &Scene {
        &self.scene
    }

    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
        play_script(self.writer.begin(&self.db).await?, &self.statements, script).await
    }

    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
        self.insert_and_end(events, end).await.expect("the transaction works")
    }

    /// Writes in a transaction that the service has ended with an SQL text.
    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
        let tx = self.db.begin().await.expect("a transaction");
        tx.execute_unprepared("COMMIT").await.expect("the transaction ends");
        let result = self.writer.insert(&tx, event).await;
        // The driver counts the transaction as open, and on SQLite its end would be an error.
        let _ = tx.execute_unprepared("BEGIN").await;
        tx.rollback().await.expect("the driver ends it too");
        Some(result)
    }

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        let other = (self.copy)().await;
        let result = match way {
            Way::Transaction => match self.writer.begin(&other).await {
                Err(error) => Err(error.into()),
                Ok(tx) => {
                    let result = tx.write(event).await.map(drop);
                    let _ = tx.commit().await;
                    result
                }
            },
            Way::Receipt => {
                let tx = other.begin().await.expect("a transaction");
                let result = self.writer.insert(&tx, event).await.map(drop);
                let _ = tx.commit().await;
                result
            }
        };
        let stored = count(&other, "SELECT COUNT(*) FROM outbox_event").await;
        other.close().await.expect("it closes");
        Some(Elsewhere { answer: result, stored })
    }

    async fn business_rows(&self) -> Option<u64> {
        Some(count(&self.db, "SELECT COUNT(*) FROM orders").await)
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities::default().with_failed_statement_aborts(self.statements.failed_statement_aborts)
    }

    async fn close(&self) {
        let _ = self.db.close_by_ref().await;
        (self.cleanup)().await;
    }
}

async fn count(db: &DatabaseConnection, sql: &str) -> u64 {
    let count = sea_orm::Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(count).await.expect("the table exists").expect("a row");
    let rows: i64 = row.try_get_by(0).expect("a count");
    rows.cast_unsigned()
}

/// Creates the tables of the service.
pub async fn prepare(db: &DatabaseConnection, statements: &Statements) {
    for statement in [statements.orders, statements.refuse_unwritable] {
        db.execute_unprepared(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Opens a pool with this many connections that log nothing; on PostgreSQL with this search path.
pub async fn connect(url: &str, connections: u32, search_path: Option<&str>) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(connections).sqlx_logging(false);
    if let Some(schema) = search_path {
        options.set_schema_search_path(schema);
    }
    Database::connect(options).await.expect("a connection")
}

/// A name that no other test uses.
pub fn new_name() -> String {
    unique_name("sea")
}
