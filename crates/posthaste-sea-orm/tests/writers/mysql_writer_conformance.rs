//! The Writer conformance suite on SeaORM and MySQL or MariaDB.

use posthaste::conformance::Scene;
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::MySqlStore;
use posthaste_testkit::variable;
use sea_orm::{ConnectionTrait as _, Database};

use crate::support::{Sea, Statements, connect, new_name, prepare};

async fn new() -> Sea {
    let (server, name) = (variable("POSTHASTE_TEST_MYSQL_URL"), new_name());
    let admin = Database::connect(&server).await.expect("a connection");
    admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.expect("a database");
    let (address, _) = server.rsplit_once('/').expect("the URL names a database");
    let (url, other) = (format!("{address}/{name}"), format!("{address}/{name}_copy"));
    let store = MySqlStore::builder(&url.parse().expect("a valid URL")).migrate().connect().await;
    let store = store.expect("the store opens");
    let db = connect(&url, 2, None).await;
    prepare(&db, &Statements::MYSQL).await;
    let scene = Scene::start(store.clone());
    let writer = SeaWriter::new(&store, scene.outbox());
    let (administrator, first) = (admin.clone(), name.clone());
    let copy = Box::new(move || {
        let (admin, name, other) = (administrator.clone(), first.clone(), other.clone());
        Box::pin(async move {
            for change in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
                admin.execute_unprepared(&format!("{change} {name}_copy")).await.expect("a new database");
            }
            let builder = MySqlStore::builder(&other.parse().expect("a valid URL"));
            builder.migrate().connect().await.expect("the store opens").close().await;
            connect(&other, 1, None).await
        }) as _
    });
    let cleanup = Box::new(move || {
        let (store, admin, name) = (store.clone(), admin.clone(), name.clone());
        Box::pin(async move {
            store.close().await;
            for database in [format!("{name}_copy"), name] {
                let drop = format!("DROP DATABASE IF EXISTS {database}");
                admin.execute_unprepared(&drop).await.expect("the database goes");
            }
        }) as _
    });
    Sea { db, scene, writer, statements: Statements::MYSQL, copy, cleanup }
}

posthaste::writer_conformance!(new().await, #[ignore = "needs MariaDB: cargo xtask test"]);
