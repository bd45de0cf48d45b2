//! Runs the scripts of the Writer conformance suite on diesel-async.

/// Defines `Harness` for this database, on a pool of this kind of connections.
macro_rules! async_harness {
    ($db:ident, $connection:ty) => {
        use crate::support::{EarlyEnd, script_error, unless_on_purpose, $db};
        use async_trait::async_trait;
        use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, deadpool::Pool};
        use diesel_async::{AsyncConnection as _, SimpleAsyncConnection as _};
        use futures_util::FutureExt as _;
        use posthaste::conformance::{
            Elsewhere, End, OwnEnd, SavepointEnd, Scene, Script, ScriptError, Step, Way, WriterCapabilities,
            WriterHarness,
        };
        use posthaste::{Event, EventId, Receipt, WriteError};
        use posthaste_diesel::{AsyncTx, AsyncWriter};

        const STATEMENTS: posthaste_testkit::writer_script::Statements = $db::STATEMENTS;

        struct Harness {
            db: $db,
            scene: Scene,
            writer: AsyncWriter<$connection>,
            pool: Pool<$connection>,
        }

        fn pool(db: &$db, connections: usize) -> Pool<$connection> {
            let mut config = ManagerConfig::default();
            config.custom_setup = Box::new(|url| {
                async move {
                    let mut connection = <$connection>::establish(url).await?;
                    connection.batch_execute($db::PREPARE_SQL).await.expect("the connection works");
                    Ok(connection)
                }
                .boxed()
            });
            let manager = AsyncDieselConnectionManager::new_with_config(db.url(), config);
            Pool::builder(manager).max_size(connections).build().expect("a pool")
        }

        impl Harness {
            async fn new() -> Self {
                let db = $db::open().await;
                let scene = Scene::start(db.store.clone());
                let writer = AsyncWriter::new(&db.store, scene.outbox());
                let pool = pool(&db, 2);
                Self { db, scene, writer, pool }
            }

            async fn run_to_its_end(&self, script: Script) -> Result<Vec<EventId>, EarlyEnd> {
                let mut connection = self.pool.get().await.expect("a connection");
                let mut written = Vec::new();
                if script.end == End::Drop {
                    let mut tx = self.writer.begin(&mut connection).await.map_err(WriteError::from)?;
                    play(&mut tx, script.steps, &mut written).await?;
                    return Ok(written);
                }
                let ended = self.writer.transaction(&mut connection, async |tx| {
                    play(tx, script.steps, &mut written).await?;
                    match script.end {
                        End::Commit => Ok(()),
                        _ => Err(EarlyEnd::OnPurpose),
                    }
                });
                unless_on_purpose(ended.await)?;
                Ok(written)
            }

            /// Inserts events in a transaction that diesel-async itself begins and ends.
            async fn insert_and_end(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
                let mut connection = self.pool.get().await.expect("a connection");
                let mut receipt = None;
                let ended = connection
                    .transaction(async |connection| {
                        match end {
                            OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack => {
                                let inner = connection.transaction(async |connection| {
                                    receipt = Some(self.writer.insert_all(connection, events).await);
                                    match end {
                                        OwnEnd::SavepointReleased => Ok(()),
                                        _ => Err(EarlyEnd::OnPurpose),
                                    }
                                });
                                unless_on_purpose(inner.await)?;
                            }
                            _ => receipt = Some(self.writer.insert_all(connection, events).await),
                        }
                        match end {
                            OwnEnd::Aborted => {
                                connection.batch_execute(STATEMENTS.aborts).await.expect_err("it fails");
                                Ok(())
                            }
                            OwnEnd::Rollback => Err(EarlyEnd::OnPurpose),
                            _ => Ok(()),
                        }
                    })
                    .await;
                match end {
                    // Only some databases report that there is nothing to commit.
                    OwnEnd::Aborted => drop(ended),
                    _ => unless_on_purpose(ended).expect("the transaction works"),
                }
                receipt.expect("the insert was called")
            }
        }

        async fn play(
            tx: &mut AsyncTx<'_, $connection>,
            steps: Vec<Step>,
            written: &mut Vec<EventId>,
        ) -> Result<(), EarlyEnd> {
            posthaste_testkit::play_steps!(
                [await] execute, tx, STATEMENTS, steps, written,
                |undone| { Box::pin(play(tx, undone, written)).await? },
                |nested, end| {
                    let inner = tx.savepoint(async |tx| {
                        Box::pin(play(tx, nested, written)).await?;
                        match end {
                            SavepointEnd::Release => Ok(()),
                            // A panic inside a savepoint rolls back the whole transaction (see the tests of
                            // cancellation), so an error is the only way to roll back a savepoint alone.
                            SavepointEnd::Rollback | SavepointEnd::Drop => Err(EarlyEnd::OnPurpose),
                        }
                    });
                    unless_on_purpose(inner.await)?;
                }
            )
        }

        async fn execute(
            tx: &mut AsyncTx<'_, $connection>,
            statement: &str,
        ) -> diesel::QueryResult<()> {
            tx.conn().batch_execute(statement).await
        }

        #[async_trait]
        impl WriterHarness for Harness {
            fn scene(&self) -> &Scene {
                &self.scene
            }

            async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
                self.run_to_its_end(script).await.map_err(script_error)
            }

            async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
                self.insert_and_end(events, end).await
            }

            async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
                let mut connection = self.pool.get().await.expect("a connection");
                Some(self.writer.insert(&mut connection, event).await)
            }

            async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
                let other = self.db.copy().await;
                let mut connection = <$connection>::establish(&other.url()).await.expect("a connection");
                let result = match way {
                    Way::Transaction => match self.writer.begin(&mut connection).await {
                        Err(error) => Err(error.into()),
                        Ok(mut tx) => {
                            let result = tx.write(event).await.map(drop);
                            let _ = tx.commit().await;
                            result
                        }
                    },
                    Way::Receipt => {
                        let mut result = Ok(());
                        let _ = connection
                            .transaction(async |connection| {
                                result = self.writer.insert(connection, event).await.map(drop);
                                Ok::<_, EarlyEnd>(())
                            })
                            .await;
                        result
                    }
                };
                drop(connection);
                Some(Elsewhere { answer: result, stored: other.close_copy().await })
            }

            async fn business_rows(&self) -> Option<u64> {
                Some(self.db.orders().await)
            }

            fn capabilities(&self) -> WriterCapabilities {
                WriterCapabilities::default().with_failed_statement_aborts(STATEMENTS.failed_statement_aborts)
            }

            async fn close(&self) {
                self.pool.close();
                self.db.close().await;
            }
        }
    };
}
