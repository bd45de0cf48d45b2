//! Cancelled calls of diesel-async: they leave no open transaction to the next borrower of a connection, and nothing is
//! delivered that was not committed.

macro_rules! cases {
    ($module:ident, $db:ident, $connection:ty $(, #[$ignore:meta])?) => {
        mod $module {
            use posthaste::{Admin as _, CommitError, StoreError};
            use posthaste_testkit::{drop_after, event, within_timeout};

            async_harness!($db, $connection);

            #[tokio::test(flavor = "multi_thread")]
            $(#[$ignore])?
            async fn cancelled_transaction_leaves_nothing_to_the_next_borrower() {
                let harness = Harness::new().await;
                let pool = pool(&harness.db, 1);
                let mut committed = Vec::new();
                for n in 0..100_usize {
                    let id = format!("event-{n}");
                    let mut connection = pool.get().await.expect("a connection");
                    let work = harness.writer.transaction(&mut connection, async |tx| {
                        tx.conn().batch_execute($db::STATEMENTS.business).await?;
                        tx.write(event(&id)).await?;
                        Ok::<_, EarlyEnd>(())
                    });
                    if drop_after(n % 12, work).await.is_some_and(|result| result.is_ok()) {
                        committed.push(id.clone());
                    }
                    drop(connection);
                    let before = harness.db.orders().await;
                    let mut next = pool.get().await.expect("a connection");
                    next.batch_execute($db::STATEMENTS.business).await.expect("the connection works");
                    assert!(harness.db.orders().await > before, "{n}: the INSERT was not committed by itself");
                }
                harness.scene.outbox().idle().await.expect("the store works");
                for id in &committed {
                    let row = harness.db.store.get(&EventId::from(id.as_str())).await;
                    assert!(row.expect("the store works").is_some(), "{id} was committed");
                }
                pool.close();
                harness.scene.outbox().shutdown().await;
                harness.close().await;
            }

            #[tokio::test(flavor = "multi_thread")]
            $(#[$ignore])?
            async fn transaction_with_a_cancelled_savepoint_is_rolled_back() {
                let harness = Harness::new().await;
                let mut connection = harness.pool.get().await.expect("a connection");
                let mut tx = harness.writer.begin(&mut connection).await.expect("it begins");
                tx.write(event("outer")).await.expect("the write works");
                let written = tokio::sync::Notify::new();
                let inner = tx.savepoint(async |tx| {
                    tx.write(event("inner")).await?;
                    written.notify_one();
                    std::future::pending::<Result<(), EarlyEnd>>().await
                });
                tokio::select! {
                    ended = inner => panic!("it waits for ever: {ended:?}"),
                    () = within_timeout("the inner event is written", written.notified()) => {}
                }
                let refused = tx.write(event("late")).await;
                assert!(matches!(refused, Err(WriteError::Store(StoreError::NoTransaction))), "{refused:?}");
                let result = tx.commit().await;
                assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
                drop(connection);
                assert_eq!(harness.db.store.stats().await.expect("the store works").new, 0);
                let next = harness.run(Script { steps: vec![Step::Write(event("kept"))], end: End::Commit });
                assert_eq!(next.await.expect("the commit works"), [EventId::from("kept")]);
                harness.scene.outbox().shutdown().await;
                harness.close().await;
            }
        }
    };
}

cases!(mysql, MySql, diesel_async::AsyncMysqlConnection, #[ignore = "needs MariaDB: cargo xtask test"]);
cases!(postgres, Postgres, diesel_async::AsyncPgConnection, #[ignore = "needs PostgreSQL: cargo xtask test"]);
cases!(sqlite, Sqlite, posthaste_diesel::AsyncSqliteConnection);
