//! Opening an outbox on SQLite: what is refused and with which advice, and migrations.

use std::error::Error as _;
use std::path::Path;

use posthaste::{Admin as _, Recorder, Store as _};
use posthaste_sqlx::{OpenError, SchemaState, SqliteStore, TableName};
use proptest::prelude::*;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Row as _, SqliteConnection};
use tempfile::TempDir;

use crate::support::*;

struct File {
    dir: TempDir,
    options: SqliteConnectOptions,
}

impl File {
    /// A path at which there is nothing yet.
    fn missing() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let options = SqliteConnectOptions::new().filename(dir.path().join("new.db"));
        Self { dir, options }
    }

    /// A database in which this was executed.
    async fn with(sql: &str) -> Self {
        let file = Self::missing();
        let mut connection = file.connect().await;
        connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("good SQL");
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("new.db")
    }

    async fn connect(&self) -> SqliteConnection {
        self.options.clone().create_if_missing(true).connect().await.expect("a connection")
    }

    async fn open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::connect(&self.options).await
    }

    async fn migrate(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::builder(&self.options).migrate().connect().await
    }

    /// Everything that is defined in the file, and the version that its migrations have reached.
    async fn schema(&self) -> Vec<String> {
        let mut connection = self.connect().await;
        let sql =
            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY type, name";
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.expect("a schema");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

fn advice_of(error: &OpenError) -> String {
    error.to_string()
}

#[tokio::test]
async fn missing_file_is_named_and_not_created() {
    let file = File::missing();
    let error = file.open().await.expect_err("nothing to open");
    assert!(matches!(&error, OpenError::MissingFile(path) if *path == file.path()), "{error:?}");
    assert!(advice_of(&error).contains("posthaste migrate apply"), "{error}");
    assert!(matches!(file.migrate().await, Err(OpenError::MissingFile(_))));
    assert!(!file.path().exists());
}

#[tokio::test]
async fn missing_file_is_created_when_the_options_say_so() {
    let file = File::missing();
    let options = file.options.clone().create_if_missing(true);
    SqliteStore::builder(&options).migrate().connect().await.expect("a new outbox");
    file.open().await.expect("it is there now");
}

#[tokio::test]
async fn file_without_an_outbox_is_refused_and_left_alone() {
    let file = File::with("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let before = file.schema().await;
    let error = file.open().await.expect_err("no outbox");
    assert!(matches!(error, OpenError::NoSchema { .. }), "{error:?}");
    assert!(advice_of(&error).contains(".migrate()"), "{error}");
    assert_eq!(file.schema().await, before);
}

#[tokio::test]
async fn read_only_database_is_refused_when_it_is_opened() {
    let fresh = File::with("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let ready = File::with("").await;
    ready.migrate().await.expect("an outbox").close().await;
    let fresh_options = read_only(&fresh);
    let ready_options = read_only(&ready);
    for (file, builder) in [
        (&fresh, SqliteStore::builder(&fresh_options).migrate()),
        (&ready, SqliteStore::builder(&ready_options).migrate()),
        (&ready, SqliteStore::builder(&ready_options)),
    ] {
        let error = builder.connect().await.expect_err("it cannot be written");
        assert!(matches!(&error, OpenError::ReadOnly(path) if *path == file.path()), "{error:?}");
        assert!(advice_of(&error).contains("mode=ro"), "{error}");
    }
}

#[tokio::test]
async fn read_only_store_looks_without_touching_the_file() {
    let file = File::with("PRAGMA journal_mode = DELETE").await;
    let builder = SqliteStore::builder(&file.options);
    file.connect().await.execute(sqlx::raw_sql(AssertSqlSafe(builder.migrations().sql()))).await.unwrap();
    for options in [file.options.clone(), read_only(&file)] {
        let store = SqliteStore::builder(&options).read_only().connect().await.expect("it can be read");
        assert_eq!(store.stats().await.unwrap().new, 0);
        store.close().await;
    }
    let mode: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut file.connect().await).await.unwrap();
    assert_eq!(mode, "delete");
    let store = SqliteStore::builder(&read_only(&file)).read_only().connect().await.unwrap();
    let error = store.pause("orders", "me").await.expect_err("it cannot be written");
    let error = std::error::Error::source(&error).expect("a source").to_string();
    assert!(error.contains("cannot be written"), "{error}");
}

fn read_only(file: &File) -> SqliteConnectOptions {
    format!("sqlite://{}?mode=ro", file.path().display()).parse().expect("a good URL")
}

#[tokio::test]
async fn database_that_somebody_else_keeps_locked_is_refused_with_advice() {
    let file = File::with("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let mut other = file.connect().await;
    other.execute("BEGIN EXCLUSIVE").await.unwrap();
    let error = file.migrate().await.expect_err("it is locked");
    assert!(matches!(&error, OpenError::Locked(path) if *path == file.path()), "{error:?}");
    assert!(advice_of(&error).contains("end the transaction"), "{error}");
    other.execute("ROLLBACK").await.unwrap();
    file.migrate().await.expect("the way is free");
}

#[tokio::test]
async fn file_that_is_no_database_is_refused() {
    let file = File::missing();
    std::fs::write(file.path(), "A letter to a friend, long enough to be looked at. ".repeat(100)).unwrap();
    for error in [file.open().await.err(), file.migrate().await.err()] {
        let error = error.expect("no database");
        assert!(matches!(&error, OpenError::NotADatabase(path) if *path == file.path()), "{error:?}");
    }
}

#[tokio::test]
async fn newer_schema_is_refused() {
    let file = File::with("").await;
    file.migrate().await.expect("an outbox").close().await;
    let note = async |row: &'static str| file.connect().await.execute(row).await.unwrap();
    note("INSERT INTO outbox_event_schema VALUES (98, 'next', 1, 0)").await;
    file.migrate().await.expect("the next release lets this one work").close().await;
    note("INSERT INTO outbox_event_schema VALUES (99, 'future', 2, 0)").await;
    for error in [file.open().await.err(), file.migrate().await.err()] {
        let error = error.expect("from the future");
        assert!(matches!(error, OpenError::NewerSchema { found: 99, .. }), "{error:?}");
        assert!(advice_of(&error).contains("newer release"), "{error}");
    }
    let state = SqliteStore::builder(&file.options).migrations().check().await.unwrap();
    assert_eq!(state, SchemaState::Newer { version: 99, latest: 1 });
}

#[tokio::test]
async fn older_schema_is_refused_with_advice() {
    let file = File::with("").await;
    file.migrate().await.expect("an outbox").close().await;
    file.connect().await.execute("DELETE FROM outbox_event_schema").await.unwrap();
    let error = file.open().await.expect_err("from the past");
    assert!(matches!(error, OpenError::OldSchema { found: 0, needed: 1, .. }), "{error:?}");
    assert!(advice_of(&error).contains("posthaste migrate apply"), "{error}");
}

#[tokio::test]
async fn table_of_that_name_that_is_not_ours_is_refused_and_left_alone() {
    let file = File::with("CREATE TABLE outbox_event (id INTEGER PRIMARY KEY, body TEXT)").await;
    let before = file.schema().await;
    for error in [
        file.open().await.err(),
        file.migrate().await.err(),
        SqliteStore::builder(&file.options).migrations().adopt().await.err(),
    ] {
        let error = error.expect("somebody else's table");
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        assert!(advice_of(&error).contains("another table name"), "{error}");
        assert!(advice_of(&error).contains("event_id"), "it names what is missing: {error}");
    }
    assert_eq!(file.schema().await, before);
}

#[tokio::test]
async fn utf_16_database_is_refused_and_left_alone() {
    let file = File::with("PRAGMA encoding = 'UTF-16le'; CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let before = file.schema().await;
    for error in [file.open().await.err(), file.migrate().await.err()] {
        let error = error.expect("another encoding");
        assert!(matches!(&error, OpenError::Encoding(name) if name == "UTF-16le"), "{error:?}");
    }
    assert_eq!(file.schema().await, before);
}

// S3-12
#[tokio::test]
async fn failure_of_the_database_keeps_its_source() {
    // A folder where the file should be.
    let file = File::missing();
    std::fs::create_dir(file.path()).unwrap();
    let error = file.open().await.expect_err("a folder");
    assert!(error.source().is_some() || matches!(error, OpenError::Database(_)), "{error:?}");
}

#[tokio::test]
async fn migrations_are_idempotent() {
    let file = File::with("").await;
    let migrations = SqliteStore::builder(&file.options).migrations();
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Missing);
    let applied = migrations.apply().await.unwrap();
    assert_eq!(applied.iter().map(|step| step.version).collect::<Vec<_>>(), [1]);
    let schema = file.schema().await;
    assert!(migrations.apply().await.unwrap().is_empty());
    assert!(migrations.adopt().await.unwrap().is_empty());
    file.migrate().await.expect("it opens").close().await;
    assert_eq!(file.schema().await, schema);
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Current { version: 1 });
}

/// A deployment in which every instance migrates when it starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_instances_that_start_at_once_on_a_new_file_all_succeed() {
    for round in 0..20 {
        let file = File::missing();
        let options = file.options.clone().create_if_missing(true);
        let starts: Vec<_> = (0..10)
            .map(|_| {
                let builder = SqliteStore::builder(&options).migrate();
                tokio::spawn(builder.connect())
            })
            .collect();
        for start in starts {
            let opened = start.await.expect("no panic");
            let store = opened.unwrap_or_else(|error| panic!("round {round}: {error}: {error:?}"));
            store.stats().await.expect("it works");
            store.close().await;
        }
        let mut connection = file.connect().await;
        let steps = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM outbox_event_schema");
        assert_eq!(steps.fetch_one(&mut connection).await.unwrap(), 1, "applied once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_instances_that_start_at_once_turn_a_file_of_the_service_to_wal() {
    for round in 0..20 {
        let file = File::with("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
        let starts: Vec<_> =
            (0..10).map(|_| tokio::spawn(SqliteStore::builder(&file.options).migrate().connect())).collect();
        for start in starts {
            let opened = start.await.expect("no panic");
            opened.unwrap_or_else(|error| panic!("round {round}: {error}: {error:?}")).close().await;
        }
    }
}

#[tokio::test]
async fn migrations_of_the_service_are_not_touched() {
    let theirs = "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
        installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, \
        checksum BLOB NOT NULL, execution_time BIGINT NOT NULL); \
        INSERT INTO _sqlx_migrations VALUES (20260101, 'orders', '2026-01-01', TRUE, x'abcd', 7)";
    let file = File::with(theirs).await;
    let rows = "SELECT json_group_array(json_array(version, description, installed_on, success, hex(checksum), \
        execution_time)) FROM _sqlx_migrations";
    let contents_now = async || {
        let mut connection = file.connect().await;
        let table = "SELECT sql FROM sqlite_master WHERE name = '_sqlx_migrations'";
        let table: String = sqlx::query_scalar(table).fetch_one(&mut connection).await.unwrap();
        let rows: String = sqlx::query_scalar(rows).fetch_one(&mut connection).await.unwrap();
        (table, rows)
    };
    let before = contents_now().await;
    file.migrate().await.expect("an outbox").close().await;
    assert_eq!(contents_now().await, before);
}

#[tokio::test]
async fn several_outboxes_in_one_file_do_not_see_each_others_rows() {
    let db = Db::new().await;
    let billing = SqliteStore::builder(&db.options).table("billing".parse().unwrap()).migrate();
    let billing = billing.connect().await.expect("a second outbox");
    let (ours, theirs) = (Recorder::new(), Recorder::new());
    let outbox = db.start(&ours);
    let routes = posthaste::Routes::new().add(posthaste::Route::fallback().deliver_to(theirs.clone()));
    let billing_outbox = posthaste::Outbox::builder(billing.clone(), routes).single_node().start().unwrap();
    // The same id in both, which is no duplicate.
    for (writer, id) in [(db.store.writer(&outbox), "ours"), (billing.writer(&billing_outbox), "theirs")] {
        let mut tx = writer.begin(&db.pool).await.unwrap();
        tx.write_all(events(&["same", id])).await.unwrap();
        tx.commit().await.unwrap();
    }
    db.store.pause("fallback", "somebody").await.unwrap();
    for outbox in [&outbox, &billing_outbox] {
        within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    }
    assert_eq!(
        (delivered(&ours), delivered(&theirs)),
        (strings(["ours", "same"]), strings(["same", "theirs"]))
    );
    assert_eq!((db.store.stats().await.unwrap().done, billing.stats().await.unwrap().done), (2, 2));
    assert!(billing.stats().await.unwrap().paused.is_empty());
}

fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[tokio::test]
async fn printed_migrations_make_the_same_schema() {
    let applied = File::with("").await;
    applied.migrate().await.expect("an outbox").close().await;
    let builder = SqliteStore::builder(&applied.options);
    let by_sqlx = File::with(&builder.migrations().sql()).await;
    assert_eq!(by_sqlx.schema().await, applied.schema().await);
    by_sqlx.open().await.expect("it is an outbox").close().await;

    let db = Db::new().await;
    let other = db.dir.path().join("by_shell.db");
    let Some(mut shell) = shell_on(&other, &db) else { return };
    assert!(shell.arg(builder.migrations().sql()).status().unwrap().success());
    let options = SqliteConnectOptions::new().filename(&other);
    let store = SqliteStore::connect(&options).await.expect("it is an outbox");
    assert!(store.wake().is_some());
    let mut connection = options.connect().await.unwrap();
    let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sqlite_master");
    let count = count.fetch_one(&mut connection).await.unwrap();
    assert_eq!(count, applied.schema().await.len() as i64);
}

fn shell_on(path: &Path, db: &Db) -> Option<std::process::Command> {
    shell(db)?;
    let mut shell = std::process::Command::new("sqlite3");
    shell.arg("-bail").arg(path);
    Some(shell)
}

// S3-125
#[test]
fn table_names_are_words_of_letters_digits_and_underscores() {
    let long = "x".repeat(TableName::MAX_CHARS);
    for good in ["outbox_event", "_", "A", "order", "SELECT", "a1", "xsqlite_", long.as_str()] {
        assert_eq!(good.parse::<TableName>().expect(good).as_str(), good);
    }
    let longer = "x".repeat(TableName::MAX_CHARS + 1);
    for bad in
        ["", "1a", "a b", "a\"b", "a;b", "a.b", "a-b", "é", "a\0", "sqlite_a", "SQLite_", longer.as_str()]
    {
        let error = bad.parse::<TableName>().expect_err(bad).to_string();
        assert!(error.contains("letters, digits"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    // S2-25, S3-125
    #[test]
    fn hostile_table_name_is_refused(name in "\\PC*['\"`;\\-\\[\\]() .\\x00]\\PC*") {
        prop_assert!(name.parse::<TableName>().is_err(), "{name:?}");
    }

    #[test]
    fn table_name_is_refused_or_works_as_a_plain_name(
        name in prop_oneof!["[A-Za-z_][A-Za-z0-9_]{0,50}", "\\PC{0,8}", "(?i)(select|table|index|order|group|sqlite_x)"],
    ) {
        let Ok(table) = name.parse::<TableName>() else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let file = File::with("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
            let builder = SqliteStore::builder(&file.options).table(table);
            match builder.migrate().connect().await {
                Ok(store) => {
                    assert_eq!(store.stats().await.expect("it works").new, 0);
                    let schema = file.schema().await;
                    let theirs = "table orders CREATE TABLE orders (id INTEGER PRIMARY KEY)";
                    assert!(schema.iter().any(|line| line == theirs), "{schema:?}");
                    // Everything else is named after the outbox.
                    for line in schema.iter().filter(|line| *line != theirs && !line.contains("sqlite_sequence")) {
                        let object = line.split(' ').nth(1).expect("a name").trim_start_matches("sqlite_autoindex_");
                        assert!(object.starts_with(&name), "{line}");
                    }
                }
                Err(error) => assert!(name.eq_ignore_ascii_case("orders"), "{name}: {error}"),
            }
        });
    }
}
