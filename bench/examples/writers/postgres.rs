//! The Writers on PostgreSQL: tokio-postgres with deadpool-postgres, diesel-async and SeaORM.

use deadpool_postgres::{Manager, Pool};
use diesel::sql_types::Text;
use diesel_async::AsyncPgConnection;
use posthaste::{BoxError, EventId};
use posthaste_sea_orm::SeaWriter;
use posthaste_sql_writer::{Postgres, WriterContext};
use posthaste_sqlx::PgStore;
use tokio_postgres::NoTls;

use super::{PAYLOAD, compare, event, sea_orm};

const SCHEMA: &str = "posthaste_bench_writers";
const ORDER_SQL: &str = "INSERT INTO posthaste_bench_writers.bench_order DEFAULT VALUES";
/// The columns that the Writer fills for such an event.
const BY_HAND_SQL: &str =
    "INSERT INTO posthaste_bench_writers.outbox_event (event_id, event_type, aggregate_type,
    aggregate_id, payload, created_at, available_at, inserted_at)
  VALUES ($1, $2, $3, $4, $5, statement_timestamp(), statement_timestamp(), statement_timestamp())";

pub(super) async fn run(url: &str) -> Result<(), BoxError> {
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(1).build()?;
    let drop = format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE");
    pool.get().await?.batch_execute(&drop).await?;
    let store = PgStore::builder(&url.parse()?).schema(SCHEMA.parse()?).migrate().connect().await?;
    let table = format!("CREATE TABLE {SCHEMA}.bench_order (id bigint GENERATED ALWAYS AS IDENTITY)");
    pool.get().await?.batch_execute(&table).await?;
    store.close().await;
    let context = WriterContext::<Postgres>::writer_only().schema(SCHEMA.parse()?).build();
    on_tokio_postgres(&pool, &context).await?;
    on_diesel_async(url, &context).await?;
    sea_orm::measure("SeaORM, PostgreSQL", url, &SeaWriter::from_context(context), [ORDER_SQL, BY_HAND_SQL])
        .await?;
    pool.get().await?.batch_execute(&drop).await?;
    Ok(())
}

async fn on_tokio_postgres(pool: &Pool, context: &WriterContext<Postgres>) -> Result<(), BoxError> {
    let mut client = pool.get().await?;
    let writer = posthaste_tokio_postgres::PgWriter::from_context(context.clone());
    compare("tokio-postgres, PostgreSQL", async |by_hand| {
        let order = client.prepare_cached(ORDER_SQL).await?;
        if by_hand {
            let insert = client.prepare_cached(BY_HAND_SQL).await?;
            let id = EventId::uuid_v7();
            let tx = client.transaction().await?;
            let event = async {
                tx.execute(&insert, &[&id.as_str(), &"OrderPlaced", &"Order", &"17", &PAYLOAD]).await
            };
            let (order, event) = tokio::join!(tx.execute(&order, &[]), event);
            order?;
            event?;
            return Ok(tx.commit().await?);
        }
        let tx = writer.begin(&mut client).await?;
        let (order, event) = tokio::join!(tx.execute(&order, &[]), tx.write(event()?));
        order?;
        event?;
        Ok(tx.commit().await?)
    })
    .await
}

async fn on_diesel_async(url: &str, context: &WriterContext<Postgres>) -> Result<(), BoxError> {
    // Imported here, because its `execute` would shadow those of the other drivers.
    use diesel_async::{AsyncConnection as _, RunQueryDsl as _, TransactionManager as _};

    type Manager = <AsyncPgConnection as diesel_async::AsyncConnection>::TransactionManager;
    let mut connection = AsyncPgConnection::establish(url).await?;
    let writer = posthaste_diesel::AsyncPgWriter::from_context(context.clone());
    compare("diesel-async, PostgreSQL", async |by_hand| {
        if by_hand {
            Manager::begin_transaction(&mut connection).await?;
            diesel::sql_query(ORDER_SQL).execute(&mut connection).await?;
            let insert =
                diesel::sql_query(BY_HAND_SQL).bind::<Text, _>(EventId::uuid_v7().as_str().to_owned());
            let insert = insert.bind::<Text, _>("OrderPlaced").bind::<Text, _>("Order");
            insert.bind::<Text, _>("17").bind::<Text, _>(PAYLOAD).execute(&mut connection).await?;
            return Ok(Manager::commit_transaction(&mut connection).await?);
        }
        let mut tx = writer.begin(&mut connection).await?;
        diesel::sql_query(ORDER_SQL).execute(tx.conn()).await?;
        tx.write(event()?).await?;
        Ok(tx.commit().await?)
    })
    .await
}
