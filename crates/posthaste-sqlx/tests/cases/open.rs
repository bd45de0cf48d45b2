//! Opening an outbox: refusals with their advice, and migrations.

use posthaste::config::PurgeConfig;
use posthaste::store::OnDone;
use posthaste::{Admin as _, Recorder};
use posthaste_sqlx::{OpenError, SchemaState, TableName};

use crate::support::*;

/// The tests of this file.
macro_rules! open_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::open:
            database_without_an_outbox_is_refused_and_left_alone,
            newer_and_older_schemas_are_refused_with_advice,
            table_of_another_program_is_refused_and_left_alone,
            migrations_are_idempotent,
            printed_migrations_make_the_same_schema,
            migrations_of_the_service_are_not_touched,
            several_outboxes_do_not_see_each_others_rows,
        );
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::open, (flavor = "multi_thread", worker_threads = 4):
            ten_instances_that_start_at_once_all_succeed_and_migrate_once,
        );
    };
}
pub(crate) use open_tests;

pub(crate) async fn database_without_an_outbox_is_refused_and_left_alone() {
    let place = Place::with("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let before = place.contents().await;
    let error = place.builder().connect().await.expect_err("no outbox");
    assert!(matches!(error, OpenError::NoSchema { .. }), "{error:?}");
    assert!(error.to_string().contains(".migrate()"), "{error}");
    assert_eq!(place.contents().await, before);
    place.remove().await;
}

pub(crate) async fn newer_and_older_schemas_are_refused_with_advice() {
    let place = Place::migrated().await;
    let note = async |version: u32, works_with: u32| {
        // All columns of the first row, so that no test depends on which of them have defaults.
        let note = "CREATE TABLE note AS SELECT * FROM outbox_event_schema WHERE version = 1;";
        let change = format!("UPDATE note SET version = {version}, works_with = {works_with};");
        let insert = "INSERT INTO outbox_event_schema SELECT * FROM note; DROP TABLE note";
        place.execute(&format!("{note} {change} {insert}")).await;
    };
    note(98, 1).await;
    place.builder().migrate().connect().await.expect("the next release lets this one work").close().await;
    note(99, 2).await;
    for error in errors_of(place.builder()).await {
        assert!(matches!(error, OpenError::NewerSchema { found: 99, .. }), "{error:?}");
        assert!(error.to_string().contains("newer release"), "{error}");
    }
    let state = place.builder().migrations().check().await.unwrap();
    assert_eq!(state, SchemaState::Newer { version: 99, latest: 1 });

    place.execute("DELETE FROM outbox_event_schema").await;
    let error = place.builder().connect().await.expect_err("from the past");
    assert!(matches!(error, OpenError::OldSchema { found: 0, needed: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("posthaste migrate apply"), "{error}");
    place.remove().await;
}

pub(crate) async fn table_of_another_program_is_refused_and_left_alone() {
    for sql in [
        "CREATE TABLE outbox_event (id INTEGER PRIMARY KEY, body TEXT)",
        "CREATE VIEW outbox_event AS SELECT 1 AS id",
    ] {
        let place = Place::with(sql).await;
        let before = place.contents().await;
        let adopted = place.builder().migrations().adopt().await;
        let [plain, migrated] = errors_of(place.builder()).await;
        for error in [plain, migrated, adopted.expect_err("another program's table")] {
            assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("another table name") && text.contains("event_id"), "{text}");
        }
        assert_eq!(place.contents().await, before);
        place.remove().await;
    }
}

pub(crate) async fn migrations_are_idempotent() {
    let place = Place::new().await;
    let migrations = place.builder().migrations();
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Missing);
    let applied = migrations.apply().await.unwrap();
    assert_eq!(applied.iter().map(|step| step.version).collect::<Vec<_>>(), [1]);
    let before = place.contents().await;
    assert!(migrations.apply().await.unwrap().is_empty());
    assert!(migrations.adopt().await.unwrap().is_empty());
    place.builder().migrate().connect().await.expect("it opens").close().await;
    assert_eq!(place.contents().await, before);
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Current { version: 1 });
    place.remove().await;
}

/// A deployment in which every instance migrates when it starts: in an empty database, and beside a table of the
/// service.
pub(crate) async fn ten_instances_that_start_at_once_all_succeed_and_migrate_once() {
    for round in 0..2 * START_ROUNDS {
        let place = match round % 2 {
            0 => Place::new().await,
            _ => Place::with("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await,
        };
        let start = |_| tokio::spawn(place.builder().migrate().connect());
        for start in (0..10).map(start).collect::<Vec<_>>() {
            let opened = start.await.expect("no panic");
            let store = opened.unwrap_or_else(|error| panic!("round {round}: {error}: {error:?}"));
            store.stats().await.expect("it works");
            store.close().await;
        }
        let steps = place.texts("SELECT name FROM outbox_event_schema").await;
        assert_eq!(steps, ["outbox"], "applied once");
        place.remove().await;
    }
}

/// Applied through the driver and through the shell of the database, and if possible in a database with other defaults.
pub(crate) async fn printed_migrations_make_the_same_schema() {
    let (applied, by_driver) = (Place::migrated().await, Place::with("SELECT 1").await);
    let by_shell = Place::with_other_defaults().await;
    by_driver.execute(&by_driver.builder().migrations().sql()).await;
    let mut printed = vec![&by_driver];
    printed.extend(by_shell.shell(&by_shell.builder().migrations().sql()).then_some(&by_shell));
    for place in printed {
        assert_eq!(place.contents().await, applied.contents().await);
        let state = place.builder().migrations().check().await.unwrap();
        assert_eq!(state, SchemaState::Current { version: 1 });
        place.open().await.close().await;
    }
    for place in [applied, by_driver, by_shell] {
        place.remove().await;
    }
}

pub(crate) async fn migrations_of_the_service_are_not_touched() {
    let place = Place::with(
        "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description VARCHAR(20) NOT NULL,
           installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL);
         INSERT INTO _sqlx_migrations VALUES (20260101, 'orders', '2026-01-01 00:00:00', TRUE)",
    )
    .await;
    let theirs = async || {
        let mut table = place.contents().await;
        table.retain(|line| line.contains("_sqlx_migrations"));
        let columns = ["version", "description", "installed_on", "success"];
        let columns = columns.map(|column| format!("CAST({column} AS {TEXT_TYPE})")).join(", ");
        (table, place.texts(&format!("SELECT concat_ws(' ', {columns}) FROM _sqlx_migrations")).await)
    };
    let before = theirs().await;
    place.builder().migrate().connect().await.expect("an outbox").close().await;
    assert_eq!(theirs().await, before);
    assert_eq!((before.0.is_empty(), before.1.len()), (false, 1));
    place.remove().await;
}

/// In the same place and in another one, with unusual table names.
pub(crate) async fn several_outboxes_do_not_see_each_others_rows() {
    let (db, elsewhere) = (Db::new().await, Place::new().await);
    let beside = db.builder().table("Order".parse().unwrap());
    let far = elsewhere.builder().table("User".parse().unwrap());
    let mut stores = vec![("here", &db.place, db.store.clone())];
    for (name, place, builder) in [("beside", &db.place, beside), ("far", &elsewhere, far)] {
        stores.push((name, place, builder.migrate().connect().await.expect("another outbox")));
    }
    let mut engines = Vec::new();
    for (name, place, store) in &stores {
        let recorder = Recorder::new();
        let outbox = engine(store, &recorder).start().unwrap();
        // The same id in all of them, which is not a duplicate.
        write(&Writer::new(store, &outbox), &place.pool(1).await, events(&["same", name])).await;
        engines.push((name, outbox, recorder));
    }
    db.store.pause("fallback", "ann").await.unwrap();
    for (name, outbox, recorder) in &engines {
        within_timeout("the engine is idle", outbox.idle()).await.unwrap();
        assert_eq!(set_of(recorder.ids()), set_of(["same", **name]));
        assert_eq!(recorder.count(), 2);
        outbox.shutdown().await;
    }
    for (name, _, store) in &stores {
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.done, stats.paused.len()), (2, usize::from(*name == "here")), "{name}");
        store.close().await;
    }
    elsewhere.remove().await;
    db.close().await;
}

/// Asserts that a name that is accepted works everywhere: in migrations, writes, claims and the archive.
pub(crate) fn assert_name_works(new_place: impl AsyncFnOnce() -> Place, table: TableName) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let place = new_place().await;
        let store = place.builder().table(table.clone()).migrate().connect().await;
        let store = store.unwrap_or_else(|error| panic!("{} {table}: {error:?}", place.table("")));
        let pool = place.pool(1).await;
        write(&plain_writer(&store), &pool, events(&["a", "b"])).await;
        let recorder = Recorder::new();
        let purge = PurgeConfig::default().with_on_done(OnDone::Archive);
        let outbox = engine(&store, &recorder).purge(purge).start().expect("a good configuration");
        within_timeout("the engine is idle", outbox.idle()).await.expect("the store works");
        assert_eq!((delivered(&recorder).len(), store.stats().await.expect("it works").archived), (2, 2));
        outbox.shutdown().await;
        store.close().await;
        pool.close().await;
        place.remove().await;
    });
}
