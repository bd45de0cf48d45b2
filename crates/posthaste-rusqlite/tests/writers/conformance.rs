//! The Writer conformance suite on rusqlite.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, End, OwnEnd, SavepointEnd, Scene, Script, ScriptError, Step, Way, WriterCapabilities,
    WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_rusqlite::{SqliteSavepoint, SqliteTx, SqliteWriter};
use posthaste_sqlx::SqliteStore;
use posthaste_testkit::writer_script::Statements;
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

const STATEMENTS: Statements = Statements::SQLITE;

struct Rusqlite {
    connection: Mutex<Connection>,
    store: SqliteStore,
    scene: Scene,
    writer: SqliteWriter,
    dir: TempDir,
}

impl Rusqlite {
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("test.db");
        let url = format!("sqlite:{}?mode=rwc", file.display());
        let builder = SqliteStore::builder(&url.parse().expect("a valid URL"));
        let store = builder.migrate().connect().await.expect("the store opens");
        let connection = Connection::open(file).expect("the file opens");
        connection.execute_batch(STATEMENTS.orders).expect("a table");
        connection.execute_batch(STATEMENTS.refuse_unwritable).expect("a trigger");
        let scene = Scene::start(store.clone());
        let writer = SqliteWriter::new(&store, scene.outbox());
        Self { connection: Mutex::new(connection), store, scene, writer, dir }
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert_and_end(
        &self,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> rusqlite::Result<Result<Receipt, WriteError>> {
        let mut connection = self.connection();
        let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let receipt = match end {
            OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack => {
                let mut savepoint = tx.savepoint()?;
                let receipt = self.writer.insert_all(&savepoint, events);
                if end == OwnEnd::SavepointRolledBack {
                    savepoint.rollback()?;
                }
                savepoint.commit()?;
                receipt
            }
            _ => self.writer.insert_all(&tx, events),
        };
        match end {
            OwnEnd::Aborted => {
                tx.execute_batch(STATEMENTS.aborts).expect_err("it fails");
                tx.commit().expect_err("there is nothing to commit");
            }
            OwnEnd::Rollback => tx.rollback()?,
            _ => tx.commit()?,
        }
        Ok(receipt)
    }
}

/// A macro, because transactions and savepoints have the same methods but no common trait.
macro_rules! play {
    ($play:ident, $tx:ty) => {
        fn $play(tx: &mut $tx, steps: Vec<Step>, written: &mut Vec<EventId>) -> Result<(), ScriptError> {
            posthaste_testkit::play_steps!(
                [] execute, tx, STATEMENTS, steps, written,
                |undone| { $play(tx, undone, written)? },
                |nested, end| {
                    let mut inner = tx.savepoint()?;
                    play_inside(&mut inner, nested, written)?;
                    match end {
                        SavepointEnd::Release => inner.release()?,
                        SavepointEnd::Rollback => inner.rollback()?,
                        SavepointEnd::Drop => drop(inner),
                    }
                }
            )
        }
    };
}

play!(play, SqliteTx<'_>);
play!(play_inside, SqliteSavepoint<'_>);

fn execute(connection: &Connection, statement: &str) -> Result<(), BoxError> {
    connection.execute_batch(statement).map_err(BoxError::from)
}

#[async_trait]
impl WriterHarness for Rusqlite {
    fn scene(&self) -> &Scene {
        &self.scene
    }

    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
        let mut connection = self.connection();
        let mut tx = self.writer.begin(&mut connection)?;
        let mut written = Vec::new();
        play(&mut tx, script.steps, &mut written)?;
        match script.end {
            End::Commit => tx.commit()?,
            End::Rollback => tx.rollback()?,
            End::Drop => drop(tx),
        }
        Ok(written)
    }

    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
        self.insert_and_end(events, end).expect("the transaction works")
    }

    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
        Some(self.writer.insert(&*self.connection(), event))
    }

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        let copy = self.dir.path().join("copy.db");
        self.connection().execute("VACUUM INTO ?1", [copy.to_str()]).expect("a copy");
        let mut other = Connection::open(&copy).expect("the file opens");
        let result = match way {
            Way::Transaction => self.writer.begin(&mut other).map_err(WriteError::from).and_then(|tx| {
                let result = tx.write(event).map(drop);
                let _ = tx.commit();
                result
            }),
            Way::Receipt => {
                let tx = other.transaction().expect("a transaction");
                let result = self.writer.insert(&tx, event).map(drop);
                tx.commit().expect("the commit works");
                result
            }
        };
        let stored: i64 =
            other.query_row("SELECT count(*) FROM outbox_event", [], |row| row.get(0)).expect("a count");
        std::fs::remove_file(copy).expect("it goes");
        Some(Elsewhere { answer: result, stored: stored.cast_unsigned() })
    }

    async fn business_rows(&self) -> Option<u64> {
        let count = self.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
        Some(count.map(i64::cast_unsigned).expect("a number"))
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities::default().with_failed_statement_aborts(STATEMENTS.failed_statement_aborts)
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

posthaste::writer_conformance!(Rusqlite::new().await);
