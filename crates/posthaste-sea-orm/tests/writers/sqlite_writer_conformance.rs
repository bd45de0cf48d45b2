//! The Writers' suite on SeaORM and SQLite.

use posthaste::conformance::Scene;
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::SqliteStore;
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database};

use crate::support::{Sea, Statements, new_name};

async fn new() -> Sea {
    let dir = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", dir.path().join("shop.db").display());
    let options = url.parse().expect("a good URL");
    let store = SqliteStore::builder(&options).migrate().connect().await.expect("the store opens");
    let mut options = ConnectOptions::new(url);
    options.max_connections(2).sqlx_logging(false);
    let db = Database::connect(options).await.expect("a connection");
    db.execute_unprepared("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await.expect("a table");
    db.execute_unprepared(
        "CREATE TRIGGER not_unwritable BEFORE INSERT ON outbox_event WHEN NEW.event_type = 'Unwritable'
         BEGIN SELECT RAISE(ABORT, 'not this type'); END",
    )
    .await
    .expect("a trigger");
    let scene = Scene::start(store.clone());
    let writer = SeaWriter::new(store.writer_context(scene.outbox()));
    let statements = Statements {
        business: "INSERT INTO orders DEFAULT VALUES",
        fails: "INSERT INTO nowhere DEFAULT VALUES",
        aborts: "INSERT OR ROLLBACK INTO orders VALUES (1), (1)",
    };
    let dir = std::sync::Arc::new(dir);
    let (folder, first) = (dir.clone(), db.clone());
    let copy = Box::new(move || {
        let (folder, first) = (folder.clone(), first.clone());
        Box::pin(async move {
            let file = folder.path().join(format!("{}.db", new_name()));
            let copy = format!("VACUUM INTO '{}'", file.display());
            first.execute_unprepared(&copy).await.expect("a copy");
            Database::connect(format!("sqlite:{}", file.display())).await.expect("a connection")
        }) as _
    });
    let cleanup = Box::new(move || {
        let (store, dir) = (store.clone(), dir.clone());
        Box::pin(async move {
            store.close().await;
            drop(dir);
        }) as _
    });
    Sea { db, scene, writer, statements, copy, cleanup }
}

posthaste::writer_conformance!(new().await);
