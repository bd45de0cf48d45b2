//! The Writer on SeaORM, on any database.

use posthaste::{BoxError, EventId};
use posthaste_sea_orm::SeaWriter;
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database, Statement, TransactionTrait as _, Value};

use super::{PAYLOAD, compare, event};

pub(super) async fn measure(
    driver: &str,
    url: &str,
    writer: &SeaWriter,
    [order_sql, by_hand_sql]: [&str; 2],
) -> Result<(), BoxError> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    let db = Database::connect(options).await?;
    let order = || Statement::from_string(db.get_database_backend(), order_sql);
    compare(driver, async |by_hand| {
        if by_hand {
            let tx = db.begin().await?;
            tx.execute_raw(order()).await?;
            let values =
                [EventId::uuid_v7().as_str(), "OrderPlaced", "Order", "17", PAYLOAD].map(Value::from);
            tx.execute_raw(Statement::from_sql_and_values(db.get_database_backend(), by_hand_sql, values))
                .await?;
            return Ok(tx.commit().await?);
        }
        let tx = writer.begin(&db).await?;
        tx.execute_raw(order()).await?;
        tx.write(event()?).await?;
        Ok(tx.commit().await?)
    })
    .await
}
