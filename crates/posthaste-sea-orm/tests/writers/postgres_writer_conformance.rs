//! The Writer conformance suite on SeaORM and PostgreSQL.

use posthaste::conformance::Scene;
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::PgStore;
use posthaste_testkit::variable;
use sea_orm::{ConnectionTrait as _, Database};

use crate::support::{Sea, Statements, connect, new_name, prepare};

async fn new() -> Sea {
    let (url, schema) = (variable("POSTHASTE_TEST_POSTGRES_URL"), new_name());
    let builder =
        PgStore::builder(&url.parse().expect("a valid URL")).schema(schema.parse().expect("a good name"));
    let store = builder.migrate().connect().await.expect("the store opens");
    let db = connect(&url, 2, Some(&schema)).await;
    prepare(&db, &Statements::POSTGRES).await;
    let scene = Scene::start(store.clone());
    let writer = SeaWriter::new(&store, scene.outbox());
    let (first, (server, _)) = (schema.clone(), url.rsplit_once('/').expect("a URL with a database"));
    let other = format!("{server}/{schema}");
    let (admin, other) = (url.clone(), other.clone());
    let copy = Box::new(move || {
        let (schema, admin, other) = (first.clone(), admin.clone(), other.clone());
        Box::pin(async move {
            let admin = Database::connect(admin).await.expect("a connection");
            // The copy of the previous case still exists.
            let drop = format!("DROP DATABASE IF EXISTS {schema} WITH (FORCE)");
            admin.execute_unprepared(&drop).await.expect("it goes");
            let create = format!("CREATE DATABASE {schema} TEMPLATE template0");
            admin.execute_unprepared(&create).await.expect("a database");
            let builder = PgStore::builder(&other.parse().expect("a valid URL"));
            let builder = builder.schema(schema.parse().expect("a valid name"));
            builder.migrate().connect().await.expect("the store opens").close().await;
            connect(&other, 1, Some(&schema)).await
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
    Sea { db, scene, writer, statements: Statements::POSTGRES, copy, cleanup }
}

posthaste::writer_conformance!(new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
