//! The Writers' suite on SeaORM, whatever the database.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::pin::Pin;

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, End, OwnEnd, SavepointEnd, Scene, Script, ScriptError, Step, Way, WriterCapabilities,
    WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_sea_orm::{SeaSavepoint, SeaTx, SeaWriter};
use posthaste_testkit::unique_name;
pub use posthaste_testkit::writer_script::Statements;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, TransactionTrait};

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Cleanup = Box<dyn Fn() -> Later<()> + Send + Sync>;

pub struct Sea {
    pub db: DatabaseConnection,
    pub scene: Scene,
    pub writer: SeaWriter,
    pub statements: Statements,
    /// Makes another database with an outbox of the same name: a copy of the first, as far as it can tell.
    pub copy: Box<dyn Fn() -> Later<DatabaseConnection> + Send + Sync>,
    /// Closes the store, and removes what it stood on.
    pub cleanup: Cleanup,
}

/// Where steps are played: a transaction or a savepoint of the Writer's.
#[derive(Clone, Copy)]
enum TxOrSavepoint<'a> {
    Tx(&'a SeaTx),
    Savepoint(&'a SeaSavepoint<'a>),
}

impl TxOrSavepoint<'_> {
    fn connection(&self) -> &DatabaseTransaction {
        match self {
            Self::Tx(tx) => tx,
            Self::Savepoint(savepoint) => savepoint,
        }
    }

    async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        match self {
            Self::Tx(tx) => tx.write(event).await,
            Self::Savepoint(savepoint) => savepoint.write(event).await,
        }
    }

    async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        match self {
            Self::Tx(tx) => tx.write_all(events).await,
            Self::Savepoint(savepoint) => savepoint.write_all(events).await,
        }
    }

    async fn savepoint(&self) -> Result<SeaSavepoint<'_>, posthaste::StoreError> {
        match self {
            Self::Tx(tx) => tx.savepoint().await,
            Self::Savepoint(savepoint) => savepoint.savepoint().await,
        }
    }

    async fn say(&self, text: &str) -> Result<(), ScriptError> {
        self.connection().execute_unprepared(text).await.map_err(BoxError::from)?;
        Ok(())
    }
}

impl Sea {
    async fn play(
        &self,
        open: TxOrSavepoint<'_>,
        steps: Vec<Step>,
        written: &mut Vec<EventId>,
    ) -> Result<(), ScriptError> {
        for step in steps {
            match step {
                Step::Write(event) => written.extend(open.write(event).await?),
                Step::WriteAll(events) => written.extend(open.write_all(events).await?),
                Step::FailedWrite(event) => {
                    drop(open.write(event).await.expect_err("the database refuses it"));
                }
                Step::Savepoint { steps, end } => {
                    let inner = open.savepoint().await?;
                    Box::pin(self.play(TxOrSavepoint::Savepoint(&inner), steps, written)).await?;
                    match end {
                        SavepointEnd::Release => inner.release().await?,
                        SavepointEnd::Rollback => inner.rollback().await?,
                        SavepointEnd::Drop => drop(inner),
                    }
                }
                Step::Undone(steps) => {
                    open.say("SAVEPOINT mine").await?;
                    Box::pin(self.play(open, steps, written)).await?;
                    open.say("ROLLBACK TO mine").await?;
                    open.say("RELEASE SAVEPOINT mine").await?;
                }
                Step::Business => open.say(self.statements.business).await?,
                Step::FailedStatement => drop(open.say(self.statements.fails).await.expect_err("it fails")),
                Step::Abort => drop(open.say(self.statements.aborts).await.expect_err("it fails")),
            }
        }
        Ok(())
    }

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
            // What the driver answers is not to be trusted.
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
        let tx = self.writer.begin(&self.db).await?;
        let mut written = Vec::new();
        self.play(TxOrSavepoint::Tx(&tx), script.steps, &mut written).await?;
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

    /// A transaction that the service has ended by a text.
    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
        let tx = self.db.begin().await.expect("a transaction");
        tx.execute_unprepared("COMMIT").await.expect("it is over");
        let answer = self.writer.insert(&tx, event).await;
        // The driver believes that it is open, and would answer its end with an error on SQLite.
        let _ = tx.execute_unprepared("BEGIN").await;
        tx.rollback().await.expect("and over again");
        Some(answer)
    }

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        let other = (self.copy)().await;
        let answer = match way {
            Way::Transaction => match self.writer.begin(&other).await {
                Err(error) => Err(error.into()),
                Ok(tx) => {
                    let answer = tx.write(event).await.map(drop);
                    let _ = tx.commit().await;
                    answer
                }
            },
            Way::Receipt => {
                let tx = other.begin().await.expect("a transaction");
                let answer = self.writer.insert(&tx, event).await.map(drop);
                let _ = tx.commit().await;
                answer
            }
        };
        let stored = count(&other, "SELECT COUNT(*) FROM outbox_event").await;
        other.close().await.expect("it closes");
        Some(Elsewhere { answer, stored })
    }

    async fn business_rows(&self) -> Option<u64> {
        Some(count(&self.db, "SELECT COUNT(*) FROM orders").await)
    }

    fn capabilities(&self) -> WriterCapabilities {
        let aborts = self.db.get_database_backend() == DbBackend::Postgres;
        WriterCapabilities { failed_statement_aborts: aborts }
    }

    async fn close(&self) {
        let _ = self.db.close_by_ref().await;
        (self.cleanup)().await;
    }
}

async fn count(db: &DatabaseConnection, sql: &str) -> u64 {
    let count = sea_orm::Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(count).await.expect("the table is there").expect("a row");
    let rows: i64 = row.try_get_by(0).expect("a count");
    rows.cast_unsigned()
}

/// A name that nobody else uses.
pub fn new_name() -> String {
    unique_name("sea")
}
