//! An order and its event in one transaction of SeaORM, and an engine in the same process that delivers it.
//!
//! ```sh
//! cargo run -p posthaste-examples --bin sea_orm
//! ```

use posthaste::{BoxError, Delivery, Event, Outbox, Routes};
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::SqliteStore;
use sea_orm::{ActiveModelTrait as _, ActiveValue, ConnectionTrait as _, Database};

mod order {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "orders")]
    pub(super) struct Model {
        #[sea_orm(primary_key)]
        pub(super) id: i32,
        pub(super) item: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub(super) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = "sqlite:shop.db?mode=rwc";
    let db = Database::connect(url).await?;
    db.execute_unprepared("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
        .await?;

    let store = SqliteStore::builder(&url.parse()?).migrate().connect().await?;
    let routes = Routes::new().handle("OrderPlaced", async |event: Delivery| {
        println!("delivered: {}", String::from_utf8_lossy(event.payload()));
    });
    let outbox = Outbox::builder(store.clone(), routes).start()?;
    let writer = SeaWriter::new(&store, &outbox);

    let tx = writer.begin(&db).await?;
    let order = order::ActiveModel { item: ActiveValue::Set("tea".to_owned()), ..Default::default() };
    let order = order.insert(&*tx).await?;
    tx.write(Event::json("OrderPlaced", &serde_json::json!({ "order": order.id }))?).await?;
    tx.commit().await?;

    outbox.shutdown().await; // What is queued is delivered first.
    Ok(())
}
