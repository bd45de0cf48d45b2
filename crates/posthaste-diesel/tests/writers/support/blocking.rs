//! Runs the scripts of the Writer conformance suite on diesel.

/// Defines `Harness` for this database, on this kind of connections.
macro_rules! blocking_harness {
    ($db:ident, $connection:ty) => {
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
        use std::sync::{Arc, Mutex};

        use crate::support::{EarlyEnd, script_error, unless_on_purpose, $db};
        use async_trait::async_trait;
        use diesel::connection::{Connection as _, SimpleConnection as _};
        use posthaste::conformance::{
            Elsewhere, End, OwnEnd, SavepointEnd, Scene, Script, ScriptError, Step, Way, WriterCapabilities,
            WriterHarness,
        };
        use posthaste::{Event, EventId, Receipt, WriteError};
        use posthaste_diesel::{Tx, Writer};

        const STATEMENTS: posthaste_testkit::writer_script::Statements = $db::STATEMENTS;

        struct Harness {
            db: $db,
            scene: Scene,
            writer: Writer<$connection>,
            idle: Arc<Mutex<Vec<$connection>>>,
        }

        /// The panic payload of a test that leaves something unfinished on purpose.
        struct Unfinished;

        impl Harness {
            async fn new() -> Self {
                let db = $db::open().await;
                let scene = Scene::start(db.store.clone());
                let writer = Writer::new(&db.store, scene.outbox());
                Self { db, scene, writer, idle: Arc::default() }
            }

            /// Runs `work` on a blocking thread. A connection is reused, whatever happened on it.
            async fn with_connection<T: Send + 'static>(
                &self,
                work: impl FnOnce(&mut $connection, Writer<$connection>) -> T + Send + 'static,
            ) -> T {
                let (idle, writer, url) = (Arc::clone(&self.idle), self.writer.clone(), self.db.url());
                let result = tokio::task::spawn_blocking(move || {
                    let waiting = idle.lock().expect("no test panics while it holds the lock").pop();
                    let mut connection = waiting.unwrap_or_else(|| {
                        let mut connection = <$connection>::establish(&url).expect("a connection");
                        connection.batch_execute($db::PREPARE_SQL).expect("the connection works");
                        connection
                    });
                    let result = work(&mut connection, writer);
                    idle.lock().expect("no test panics while it holds the lock").push(connection);
                    result
                });
                result.await.expect("the closure does not panic")
            }
        }

        fn run(
            writer: &Writer<$connection>,
            connection: &mut $connection,
            script: Script,
        ) -> Result<Vec<EventId>, EarlyEnd> {
            let mut written = Vec::new();
            let end = script.end;
            let ended = catch_unwind(AssertUnwindSafe(|| {
                writer.transaction(connection, |tx| {
                    play(tx, script.steps, &mut written)?;
                    match end {
                        End::Commit => Ok(()),
                        End::Rollback => Err(EarlyEnd::OnPurpose),
                        End::Drop => resume_unwind(Box::new(Unfinished)),
                    }
                })
            }));
            unless_on_purpose(finished(ended))?;
            Ok(written)
        }

        fn play(
            tx: &mut Tx<'_, $connection>,
            steps: Vec<Step>,
            written: &mut Vec<EventId>,
        ) -> Result<(), EarlyEnd> {
            posthaste_testkit::play_steps!(
                [] execute, tx, STATEMENTS, steps, written,
                |undone| { play(tx, undone, written)? },
                |nested, end| { play_inside(tx, nested, end, written)? }
            )
        }

        fn execute(tx: &mut Tx<'_, $connection>, statement: &str) -> diesel::QueryResult<()> {
            tx.conn().batch_execute(statement)
        }

        fn play_inside(
            tx: &mut Tx<'_, $connection>,
            steps: Vec<Step>,
            end: SavepointEnd,
            written: &mut Vec<EventId>,
        ) -> Result<(), EarlyEnd> {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                tx.savepoint(|tx| {
                    play(tx, steps, written)?;
                    match end {
                        SavepointEnd::Release => Ok(()),
                        SavepointEnd::Rollback => Err(EarlyEnd::OnPurpose),
                        SavepointEnd::Drop => resume_unwind(Box::new(Unfinished)),
                    }
                })
            }));
            unless_on_purpose(finished(ended))
        }

        /// Treats a panic on purpose as success.
        fn finished(ended: std::thread::Result<Result<(), EarlyEnd>>) -> Result<(), EarlyEnd> {
            match ended {
                Ok(result) => result,
                Err(panic) if panic.is::<Unfinished>() => Ok(()),
                Err(panic) => resume_unwind(panic),
            }
        }

        /// Inserts events in a transaction that diesel itself begins and ends.
        fn insert_and_end(
            writer: &Writer<$connection>,
            connection: &mut $connection,
            events: Vec<Event>,
            end: OwnEnd,
        ) -> Result<Receipt, WriteError> {
            let mut receipt = None;
            let ended = connection.transaction(|connection| {
                let savepoint = |connection: &mut $connection| {
                    receipt = Some(writer.insert_all(connection, events));
                    match end {
                        OwnEnd::SavepointRolledBack | OwnEnd::Rollback => Err(EarlyEnd::OnPurpose),
                        _ => Ok(()),
                    }
                };
                match end {
                    OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack => {
                        unless_on_purpose(connection.transaction(savepoint))?;
                    }
                    _ => savepoint(connection)?,
                }
                if end == OwnEnd::Aborted {
                    connection.batch_execute(STATEMENTS.aborts).expect_err("it fails");
                }
                Ok(())
            });
            match end {
                // Only some databases report that there is nothing to commit.
                OwnEnd::Aborted => drop(ended),
                _ => unless_on_purpose(ended).expect("the transaction works"),
            }
            receipt.expect("the insert was called")
        }

        #[async_trait]
        impl WriterHarness for Harness {
            fn scene(&self) -> &Scene {
                &self.scene
            }

            async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
                let result = self.with_connection(|connection, writer| run(&writer, connection, script));
                result.await.map_err(script_error)
            }

            async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
                self.with_connection(move |connection, writer| {
                    insert_and_end(&writer, connection, events, end)
                })
                .await
            }

            async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
                Some(self.with_connection(|connection, writer| writer.insert(connection, event)).await)
            }

            async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
                let other = self.db.copy().await;
                let (writer, url) = (self.writer.clone(), other.url());
                let result = tokio::task::spawn_blocking(move || {
                    let mut connection = <$connection>::establish(&url).expect("a connection");
                    match way {
                        Way::Transaction => {
                            let mut result = Ok(());
                            let ended = writer.transaction(&mut connection, |tx| {
                                result = tx.write(event).map(drop);
                                Ok::<_, EarlyEnd>(())
                            });
                            match (result, ended) {
                                (Ok(()), Err(EarlyEnd::Script(ScriptError::Write(refused)))) => Err(refused),
                                (result, _) => result,
                            }
                        }
                        Way::Receipt => {
                            let mut result = Ok(());
                            let _ = connection.transaction(|connection| {
                                result = writer.insert(connection, event).map(drop);
                                Ok::<_, EarlyEnd>(())
                            });
                            result
                        }
                    }
                });
                let result = result.await.expect("the closure does not panic");
                Some(Elsewhere { answer: result, stored: other.close_copy().await })
            }

            async fn business_rows(&self) -> Option<u64> {
                Some(self.db.orders().await)
            }

            fn capabilities(&self) -> WriterCapabilities {
                WriterCapabilities::default().with_failed_statement_aborts(STATEMENTS.failed_statement_aborts)
            }

            async fn close(&self) {
                self.idle.lock().expect("no test panics while it holds the lock").clear();
                self.db.close().await;
            }
        }
    };
}
