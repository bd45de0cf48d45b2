//! The Writers' suite on SeaORM and MySQL or MariaDB.

use posthaste::conformance::Scene;
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::MySqlStore;
use posthaste_testkit::variable;
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database};

use crate::support::{Sea, Statements, new_name};

async fn new() -> Sea {
    let (server, name) = (variable("POSTHASTE_TEST_MYSQL_URL"), new_name());
    let admin = Database::connect(&server).await.expect("a connection");
    admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.expect("a database");
    let (address, _) = server.rsplit_once('/').expect("the URL names a database");
    let (url, other) = (format!("{address}/{name}"), format!("{address}/{name}_copy"));
    let store = MySqlStore::builder(&url.parse().expect("a good URL")).migrate().connect().await;
    let store = store.expect("the store opens");
    let mut options = ConnectOptions::new(url);
    options.max_connections(2).sqlx_logging(false);
    let db = Database::connect(options).await.expect("a connection");
    db.execute_unprepared("CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY)").await.expect("a table");
    let refuses = "ALTER TABLE outbox_event ADD CHECK (event_type <> 'Unwritable')";
    db.execute_unprepared(refuses).await.expect("a constraint");
    let scene = Scene::start(store.clone());
    let writer = SeaWriter::new(store.writer_context(scene.outbox()));
    // A deadlock ends a transaction as the last one does: it is rolled back, and a statement has failed.
    let statements = Statements {
        business: "INSERT INTO orders () VALUES ()",
        fails: "SELECT * FROM nowhere",
        aborts: "ROLLBACK; SELECT * FROM nowhere",
    };
    let (administrator, first) = (admin.clone(), name.clone());
    let copy = Box::new(move || {
        let (admin, name, other) = (administrator.clone(), first.clone(), other.clone());
        Box::pin(async move {
            for change in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
                admin.execute_unprepared(&format!("{change} {name}_copy")).await.expect("a new database");
            }
            let builder = MySqlStore::builder(&other.parse().expect("a good URL"));
            builder.migrate().connect().await.expect("the store opens").close().await;
            let mut options = ConnectOptions::new(other);
            options.max_connections(1).sqlx_logging(false);
            Database::connect(options).await.expect("a connection")
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
    Sea { db, scene, writer, statements, copy, cleanup }
}

posthaste::writer_conformance!(new().await, #[ignore = "needs MariaDB: cargo xtask test"]);
