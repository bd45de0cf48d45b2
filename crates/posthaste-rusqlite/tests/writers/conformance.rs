//! The Writers' suite.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, End, OwnEnd, SavepointEnd, Scene, Script, ScriptError, Step, Way, WriterCapabilities,
    WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_rusqlite::{SqliteSavepoint, SqliteTx, SqliteWriter};
use posthaste_sqlx::SqliteStore;
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

const INSERT_ORDER_SQL: &str = "INSERT INTO orders DEFAULT VALUES";
const REFUSING_TRIGGER_SQL: &str = "CREATE TRIGGER not_unwritable BEFORE INSERT ON outbox_event
WHEN NEW.event_type = 'Unwritable' BEGIN SELECT RAISE(ABORT, 'not this type'); END";
const FAILING_SQL: &str = "INSERT INTO nowhere DEFAULT VALUES";
const ABORTING_SQL: &str = "INSERT OR ROLLBACK INTO orders VALUES (1), (1)";

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
        let builder = SqliteStore::builder(&url.parse().expect("a good URL"));
        let store = builder.migrate().connect().await.expect("the store opens");
        let connection = Connection::open(file).expect("the file opens");
        connection.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").expect("a table");
        connection.execute_batch(REFUSING_TRIGGER_SQL).expect("a trigger");
        let scene = Scene::start(store.clone());
        let writer = SqliteWriter::new(store.writer_context(scene.outbox()));
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
                tx.execute_batch(ABORTING_SQL).expect_err("it fails");
                tx.commit().expect_err("there is nothing to commit");
            }
            OwnEnd::Rollback => tx.rollback()?,
            _ => tx.commit()?,
        }
        Ok(receipt)
    }
}

/// Transactions and savepoints share methods and no trait.
macro_rules! play_steps {
    ($play:ident, $tx:ident, $steps:ident, $written:ident) => {{
        for step in $steps {
            match step {
                Step::Write(event) => $written.extend($tx.write(event)?),
                Step::WriteAll(events) => $written.extend($tx.write_all(events)?),
                Step::FailedWrite(event) => {
                    let _ = $tx.write(event).expect_err("SQLite refuses it");
                }
                Step::Savepoint { steps, end } => {
                    let mut inner = $tx.savepoint()?;
                    play_inside(&mut inner, steps, $written)?;
                    match end {
                        SavepointEnd::Release => inner.release()?,
                        SavepointEnd::Rollback => inner.rollback()?,
                        SavepointEnd::Drop => drop(inner),
                    }
                }
                Step::Undone(steps) => {
                    execute($tx, "SAVEPOINT mine")?;
                    $play($tx, steps, $written)?;
                    execute($tx, "ROLLBACK TO mine")?;
                    execute($tx, "RELEASE mine")?;
                }
                Step::Business => execute($tx, INSERT_ORDER_SQL)?,
                Step::FailedStatement => {
                    let _ = $tx.execute_batch(FAILING_SQL).expect_err("it fails");
                }
                Step::Abort => {
                    let _ = $tx.execute_batch(ABORTING_SQL).expect_err("it fails");
                }
            }
        }
        Ok(())
    }};
}

fn play(tx: &mut SqliteTx<'_>, steps: Vec<Step>, written: &mut Vec<EventId>) -> Result<(), ScriptError> {
    play_steps!(play, tx, steps, written)
}

fn play_inside(
    tx: &mut SqliteSavepoint<'_>,
    steps: Vec<Step>,
    written: &mut Vec<EventId>,
) -> Result<(), ScriptError> {
    play_steps!(play_inside, tx, steps, written)
}

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
        let answer = match way {
            Way::Transaction => self.writer.begin(&mut other).map_err(WriteError::from).and_then(|tx| {
                let answer = tx.write(event).map(drop);
                let _ = tx.commit();
                answer
            }),
            Way::Receipt => {
                let tx = other.transaction().expect("a transaction");
                let answer = self.writer.insert(&tx, event).map(drop);
                tx.commit().expect("the commit works");
                answer
            }
        };
        let stored: i64 =
            other.query_row("SELECT count(*) FROM outbox_event", [], |row| row.get(0)).expect("a count");
        std::fs::remove_file(copy).expect("it goes");
        Some(Elsewhere { answer, stored: stored.cast_unsigned() })
    }

    async fn business_rows(&self) -> Option<u64> {
        let count = self.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
        Some(count.map(i64::cast_unsigned).expect("a number"))
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities { failed_statement_aborts: false }
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

posthaste::writer_conformance!(Rusqlite::new().await);
