//! The Writers on SQLite: rusqlite, diesel and SeaORM.

use std::path::Path;

use diesel::connection::SimpleConnection as _;
use diesel::sql_types::Text;
use posthaste::{BoxError, EventId};
use posthaste_sea_orm::SeaWriter;
use posthaste_sql_writer::{Sqlite, WriterContext};
use posthaste_sqlx::SqliteStore;

use super::{PAYLOAD, compare, event, sea_orm};

const TABLE_SQL: &str = "CREATE TABLE IF NOT EXISTS bench_order (id INTEGER PRIMARY KEY)";
const ORDER_SQL: &str = "INSERT INTO bench_order DEFAULT VALUES";
const BY_HAND_SQL: &str =
    "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)
  VALUES (?1, ?2, ?3, ?4, ?5)";

pub(super) async fn run() -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("bench.db");
    let url = format!("sqlite:{}?mode=rwc", file.display());
    SqliteStore::builder(&url.parse()?).migrate().connect().await?.close().await;
    rusqlite::Connection::open(&file)?.execute_batch(TABLE_SQL)?;
    let context = WriterContext::<Sqlite>::writer_only().build();
    on_rusqlite(&file, &context).await?;
    on_diesel(&file, &context).await?;
    sea_orm::measure("SeaORM, SQLite", &url, &SeaWriter::from_context(context), [ORDER_SQL, BY_HAND_SQL])
        .await
}

async fn on_rusqlite(file: &Path, context: &WriterContext<Sqlite>) -> Result<(), BoxError> {
    let mut connection = rusqlite::Connection::open(file)?;
    let writer = posthaste_rusqlite::SqliteWriter::from_context(context.clone());
    compare("rusqlite, SQLite", async |by_hand| {
        if by_hand {
            let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            tx.prepare_cached(ORDER_SQL)?.execute([])?;
            let id = EventId::uuid_v7();
            tx.prepare_cached(BY_HAND_SQL)?.execute([id.as_str(), "OrderPlaced", "Order", "17", PAYLOAD])?;
            return Ok(tx.commit()?);
        }
        let tx = writer.begin(&mut connection)?;
        tx.prepare_cached(ORDER_SQL)?.execute([])?;
        tx.write(event()?)?;
        Ok(tx.commit()?)
    })
    .await
}

async fn on_diesel(file: &Path, context: &WriterContext<Sqlite>) -> Result<(), BoxError> {
    // Imported here, because its `execute` would shadow those of the other drivers.
    use diesel::{Connection as _, RunQueryDsl as _};

    let mut connection = diesel::SqliteConnection::establish(&file.display().to_string())?;
    connection.batch_execute("PRAGMA foreign_keys = ON")?;
    let writer = posthaste_diesel::SqliteWriter::from_context(context.clone());
    compare("diesel, SQLite", async |by_hand| {
        if by_hand {
            return connection.immediate_transaction(|connection| {
                diesel::sql_query(ORDER_SQL).execute(connection)?;
                let insert =
                    diesel::sql_query(BY_HAND_SQL).bind::<Text, _>(EventId::uuid_v7().as_str().to_owned());
                let insert = insert.bind::<Text, _>("OrderPlaced").bind::<Text, _>("Order");
                insert.bind::<Text, _>("17").bind::<Text, _>(PAYLOAD).execute(connection)?;
                Ok(())
            });
        }
        writer.transaction(&mut connection, |tx| {
            diesel::sql_query(ORDER_SQL).execute(tx.conn())?;
            tx.write(event()?)?;
            Ok(())
        })
    })
    .await
}
