//! The Writers' suite on SeaORM and PostgreSQL.

use posthaste::conformance::Scene;
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::PgStore;
use posthaste_testkit::variable;
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database};

use crate::support::{Sea, Statements, new_name};

async fn new() -> Sea {
    let (url, schema) = (variable("POSTHASTE_TEST_POSTGRES_URL"), new_name());
    let builder =
        PgStore::builder(&url.parse().expect("a good URL")).schema(schema.parse().expect("a good name"));
    let store = builder.migrate().connect().await.expect("the store opens");
    let mut options = ConnectOptions::new(&url);
    options.max_connections(2).sqlx_logging(false).set_schema_search_path(&schema);
    let db = Database::connect(options).await.expect("a connection");
    let table = "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY)";
    db.execute_unprepared(table).await.expect("a table");
    let refuses = "ALTER TABLE outbox_event ADD CHECK (event_type <> 'Unwritable')";
    db.execute_unprepared(refuses).await.expect("a constraint");
    let scene = Scene::start(store.clone());
    let writer = SeaWriter::new(store.writer_context(scene.outbox()));
    let statements = Statements {
        business: "INSERT INTO orders DEFAULT VALUES",
        fails: "SELECT 1/0",
        aborts: "SELECT 1/0",
    };
    let (first, (server, _)) = (schema.clone(), url.rsplit_once('/').expect("a URL with a database"));
    let other = format!("{server}/{schema}");
    let (admin, other) = (url.clone(), other.clone());
    let copy = Box::new(move || {
        let (schema, admin, other) = (first.clone(), admin.clone(), other.clone());
        Box::pin(async move {
            let admin = Database::connect(admin).await.expect("a connection");
            // The last one is still there.
            let drop = format!("DROP DATABASE IF EXISTS {schema} WITH (FORCE)");
            admin.execute_unprepared(&drop).await.expect("it goes");
            let create = format!("CREATE DATABASE {schema} TEMPLATE template0");
            admin.execute_unprepared(&create).await.expect("a database");
            let builder = PgStore::builder(&other.parse().expect("a good URL"));
            let builder = builder.schema(schema.parse().expect("a good name"));
            builder.migrate().connect().await.expect("the store opens").close().await;
            let mut options = ConnectOptions::new(&other);
            options.max_connections(1).sqlx_logging(false).set_schema_search_path(&schema);
            Database::connect(options).await.expect("a connection")
        }) as _
    });
    let cleanup = Box::new(move || {
        let (store, url, schema) = (store.clone(), url.clone(), schema.clone());
        Box::pin(async move {
            store.close().await;
            let db = Database::connect(url).await.expect("a connection");
            let copy = format!("DROP DATABASE IF EXISTS {schema} WITH (FORCE)");
            db.execute_unprepared(&copy).await.expect("the copy goes");
            db.execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("the schema goes");
        }) as _
    });
    Sea { db, scene, writer, statements, copy, cleanup }
}

posthaste::writer_conformance!(new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
