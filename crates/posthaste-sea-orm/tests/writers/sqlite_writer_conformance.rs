//! The Writer conformance suite on SeaORM and SQLite.

use posthaste::conformance::Scene;
use posthaste_sea_orm::SeaWriter;
use posthaste_sqlx::SqliteStore;
use sea_orm::ConnectionTrait as _;

use crate::support::{Sea, Statements, connect, new_name, prepare};

async fn new() -> Sea {
    let dir = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", dir.path().join("shop.db").display());
    let options = url.parse().expect("a valid URL");
    let store = SqliteStore::builder(&options).migrate().connect().await.expect("the store opens");
    let db = connect(&url, 2, None).await;
    prepare(&db, &Statements::SQLITE).await;
    let scene = Scene::start(store.clone());
    let writer = SeaWriter::new(&store, scene.outbox());
    let dir = std::sync::Arc::new(dir);
    let (folder, first) = (dir.clone(), db.clone());
    let copy = Box::new(move || {
        let (folder, first) = (folder.clone(), first.clone());
        Box::pin(async move {
            let file = folder.path().join(format!("{}.db", new_name()));
            let copy = format!("VACUUM INTO '{}'", file.display());
            first.execute_unprepared(&copy).await.expect("a copy");
            connect(&format!("sqlite:{}", file.display()), 1, None).await
        }) as _
    });
    let cleanup = Box::new(move || {
        let (store, dir) = (store.clone(), dir.clone());
        Box::pin(async move {
            store.close().await;
            drop(dir);
        }) as _
    });
    Sea { db, scene, writer, statements: Statements::SQLITE, copy, cleanup }
}

posthaste::writer_conformance!(new().await);
