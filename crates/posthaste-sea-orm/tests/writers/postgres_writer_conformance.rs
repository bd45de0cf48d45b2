//! The Writers' suite on SeaORM and PostgreSQL.

use posthaste::conformance::Scene;
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::PgStore;
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database};

use crate::support::{Sea, Statements, new_name, server};

async fn new() -> Sea {
    let (url, schema) = (server("POSTHASTE_TEST_POSTGRES_URL"), new_name());
    let builder =
        PgStore::builder(&url.parse().expect("a good URL")).schema(schema.parse().expect("a good name"));
    let store = builder.migrate().connect().await.expect("the store opens");
    let mut options = ConnectOptions::new(&url);
    options.max_connections(2).sqlx_logging(false).set_schema_search_path(&schema);
    let db = Database::connect(options).await.expect("a connection");
    let table = "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY)";
    db.execute_unprepared(table).await.expect("a table");
    let scene = Scene::start(store.clone());
    let writer = SeaWriter::new(store.door(scene.outbox()));
    let statements = Statements {
        business: "INSERT INTO orders DEFAULT VALUES",
        fails: "SELECT 1/0",
        aborts: "SELECT 1/0",
    };
    let cleanup = Box::new(move || {
        let (store, url, schema) = (store.clone(), url.clone(), schema.clone());
        Box::pin(async move {
            store.close().await;
            let db = Database::connect(url).await.expect("a connection");
            db.execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("the schema goes");
        }) as _
    });
    Sea { db, scene, writer, statements, cleanup }
}

posthaste::writer_conformance!(new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
