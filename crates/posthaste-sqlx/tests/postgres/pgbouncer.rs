//! The Writer and an engine behind PgBouncer in transaction mode with two server connections.

use std::time::Duration;

use posthaste::{Admin as _, BoxError, Recorder, Source};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_sqlx::{PgStore, PgTx};
use sqlx::postgres::PgPoolOptions;

use crate::support::*;

const TASKS: usize = 8;
const TRANSACTIONS: usize = 200;

// F38
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn many_writers_and_an_engine_behind_pgbouncer_make_no_error() {
    let schema = new_schema();
    let store = PgStore::builder(&pgbouncer()).schema(schema.clone()).pgbouncer().migrate().connect().await;
    let store = store.expect("the store opens");
    let recorder = Recorder::new();
    let outbox =
        engine(&store, &recorder).poll_interval(Duration::from_millis(50)).workers(2).start().unwrap();
    // What a service behind PgBouncer has to set for its own statements.
    let options = pgbouncer().extra_float_digits(None);
    let pool = PgPoolOptions::new().max_connections(8).connect_with(options).await.expect("the pool opens");
    let (hot, cold) = (Writer::new(&store, &outbox), plain_writer(&store));
    let task = |task: usize| {
        let (writer, pool) = (if task.is_multiple_of(2) { hot.clone() } else { cold.clone() }, pool.clone());
        tokio::spawn(async move {
            for n in 0..TRANSACTIONS {
                let id = format!("{task}-{n}");
                match n % 4 {
                    0 => {
                        let mut tx = writer.begin(&pool).await?;
                        let mut undone = tx.savepoint().await?;
                        undone.write(event("undone")).await?;
                        undone.rollback().await?;
                        tx.write(event(&id)).await?;
                        tx.commit().await?;
                    }
                    1 => {
                        let mut tx = writer.begin(&pool).await?;
                        tx.write(event(&format!("{id}-undone"))).await?;
                        tx.rollback().await?;
                        let mut tx = writer.begin(&pool).await?;
                        tx.write_all(events(&[&id, &id])).await?;
                        tx.commit().await?;
                    }
                    _ => {
                        let work = async |tx: &mut PgTx| Ok::<_, BoxError>(tx.write(event(&id)).await?);
                        writer.transaction(&pool, work).await?;
                    }
                }
            }
            Ok::<(), BoxError>(())
        })
    };
    for done in (0..TASKS).map(task).collect::<Vec<_>>() {
        done.await.expect("no panic").expect("no error");
    }
    let all = TASKS * TRANSACTIONS;
    within_timeout("all are delivered", recorder.wait_for(all)).await;
    wait_until("all are settled", async || store.stats().await.expect("no error").done == all as u64).await;
    assert_eq!((recorder.count(), set_of(recorder.ids()).len()), (all, all), "once each");
    assert!(!recorder.ids().iter().any(|id| id.as_str().ends_with("undone")));
    assert!(recorder.deliveries().iter().any(|delivery| delivery.source == Source::Hot));
    outbox.shutdown().await;
    pool.close().await;
    store.close().await;
    drop_schema(&schema).await;
}

/// LISTEN does not work behind PgBouncer. With a direct connection to listen on, an engine is still woken.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn engine_behind_pgbouncer_is_woken_through_a_direct_connection() {
    let schema = new_schema();
    // The channel has the name of the table, and other tests notify too.
    let table: posthaste_sqlx::TableName = format!("wake_{schema}").parse().unwrap();
    let builder = PgStore::builder(&pgbouncer()).schema(schema.clone()).table(table.clone());
    let builder = PgStoreBuilder::pgbouncer(builder);
    let writing = builder.clone().migrate().connect().await.expect("the store opens");
    let delivering = builder.listen_on(&server()).connect().await.expect("the store opens");
    let recorder = Recorder::new();
    let outbox = engine(&delivering, &recorder).start().unwrap();
    let pool = pool_in(&schema, server(), 1).await;
    let listening = format!("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%{table}%'");
    wait_until("the engine listens", async || text_of(&pool, &listening).await.as_deref() == Some("1")).await;
    for n in 1..=3 {
        write(&plain_writer(&writing), &pool, vec![event(&format!("event{n}"))]).await;
        within_timeout("it is delivered", recorder.wait_for(n)).await;
    }
    outbox.shutdown().await;
    pool.close().await;
    writing.close().await;
    delivering.close().await;
    drop_schema(&schema).await;
}
