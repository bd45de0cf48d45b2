//! A shop's outbox for one test, on any kind of store, and the binary to operate it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use posthaste_sqlx::SqliteStore;
use posthaste_testkit::sample_rows::{ROWS, insert};
use posthaste_testkit::{unique_name, variable};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, MySqlConnection, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::binary::posthaste;
use crate::command_output::CommandOutput;

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
    MySql,
    Redis,
}

/// The outbox of one test. Dropping it removes it from the server if the test succeeded.
pub(crate) struct Shop {
    pub(crate) kind: StoreKind,
    url: String,
    /// The schema, the database or the name in Redis, unique to this test.
    name: String,
    /// The working directory of the binary, and the place of the SQLite file.
    folder: Arc<TempDir>,
    /// Whether dropping this value removes the outbox.
    is_owner: bool,
}

impl Shop {
    /// A store without an outbox; on SQLite not even a file.
    pub(crate) fn bare(kind: StoreKind) -> Self {
        Self::bare_on(
            kind,
            match kind {
                StoreKind::Sqlite => "sqlite:shop.db".to_owned(),
                StoreKind::Postgres => variable("POSTHASTE_TEST_POSTGRES_URL"),
                StoreKind::MySql => variable("POSTHASTE_TEST_MYSQL_URL"),
                StoreKind::Redis => variable("POSTHASTE_TEST_REDIS_URL"),
            },
        )
    }

    fn bare_on(kind: StoreKind, url: String) -> Self {
        let folder = Arc::new(TempDir::new().expect("a temporary folder"));
        let mut shop = Self { kind, url, name: unique_name("cli"), folder, is_owner: true };
        let name = &shop.name;
        match kind {
            StoreKind::Sqlite | StoreKind::Redis => {}
            StoreKind::Postgres => shop.sql(&format!("CREATE SCHEMA {name}")),
            StoreKind::MySql => {
                shop.sql(&format!("CREATE DATABASE {name}"));
                let (_, path) = shop.server();
                let (database, _) = path.split_once('?').unwrap_or((path, ""));
                shop.url = shop.url.replacen(database, &format!("/{name}"), 1);
            }
        }
        shop
    }

    /// An empty outbox.
    pub(crate) fn empty(kind: StoreKind) -> Self {
        Self::bare(kind).migrated()
    }

    /// An empty outbox on the server at this URL.
    pub(crate) fn empty_on(kind: StoreKind, url: String) -> Self {
        Self::bare_on(kind, url).migrated()
    }

    fn migrated(self) -> Self {
        match self.kind {
            StoreKind::Redis => {}
            // Without the binary, because most tests start here.
            StoreKind::Sqlite => block_on(async {
                let builder = SqliteStore::builder(&self.sqlite_options()).migrate();
                builder.connect().await.expect("the outbox opens").close().await;
            }),
            StoreKind::Postgres | StoreKind::MySql => {
                let output = self.run("migrate apply");
                assert_eq!(output.code, 0, "{output}");
            }
        }
        self
    }

    /// An outbox with rows in every state.
    pub(crate) fn seeded(kind: StoreKind) -> Self {
        let shop = Self::empty(kind);
        match kind {
            StoreKind::Sqlite => shop.sql(&insert(&ROWS, |seconds| (seconds * 1_000_000).to_string())),
            StoreKind::Postgres => shop.sql(&insert(&ROWS, |seconds| format!("to_timestamp({seconds})"))),
            StoreKind::MySql => {
                let time = |seconds| format!("TIMESTAMPADD(SECOND, {seconds}, '1970-01-01')");
                shop.sql(&insert(&ROWS, time));
            }
            StoreKind::Redis => shop.add_redis_rows(&ROWS),
        }
        shop
    }

    /// A SQLite database without an outbox, in which these statements were executed.
    pub(crate) fn with_sql(statements: &str) -> Self {
        let shop = Self::bare(StoreKind::Sqlite);
        shop.sql(statements);
        shop
    }

    /// The same outbox with another URL.
    pub(crate) fn with_url(&self, url: String) -> Self {
        let (name, folder) = (self.name.clone(), Arc::clone(&self.folder));
        Self { kind: self.kind, url, name, folder, is_owner: false }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the folder in which the binary runs.
    pub(crate) fn write_file(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).expect("the file can be written");
    }

    /// `host:port` of the server.
    pub(crate) fn host(&self) -> &str {
        self.server().0
    }

    /// `host:port/database`.
    pub(crate) fn address(&self) -> String {
        let (host, path) = self.server();
        format!("{host}{}", path.split('?').next().unwrap_or(path))
    }

    /// `host:port`, and the rest of the URL.
    fn server(&self) -> (&str, &str) {
        let (_, rest) = self.url.split_once("://").expect("the URL of a server");
        let authority = rest.split(['/', '?']).next().unwrap_or(rest);
        (authority.rsplit('@').next().unwrap_or(authority), &rest[authority.len()..])
    }

    pub(crate) fn sqlite_options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.path("shop.db")).create_if_missing(true)
    }

    pub(crate) async fn sqlite(&self) -> SqliteConnection {
        self.sqlite_options().connect().await.expect("the file opens")
    }

    pub(crate) async fn postgres(&self) -> PgConnection {
        let options: PgConnectOptions = self.url.parse().expect("a good URL");
        options.options([("search_path", &self.name)]).connect().await.expect("the server runs")
    }

    pub(crate) async fn mysql(&self) -> MySqlConnection {
        let options: MySqlConnectOptions = self.url.parse().expect("a good URL");
        options.connect().await.expect("the server runs")
    }

    /// Executes statements, as another program would.
    pub(crate) fn sql(&self, statements: &str) {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements));
        let done = block_on(async {
            match self.kind {
                StoreKind::Sqlite => statements.execute(&mut self.sqlite().await).await.map(drop),
                StoreKind::Postgres => statements.execute(&mut self.postgres().await).await.map(drop),
                StoreKind::MySql => statements.execute(&mut self.mysql().await).await.map(drop),
                StoreKind::Redis => panic!("Redis has no SQL"),
            }
        });
        done.expect("the statements run");
    }

    /// The rows of a query, joined with spaces.
    pub(crate) fn query(&self, query: &str) -> String {
        let query = AssertSqlSafe(query);
        let rows: Result<Vec<String>, _> = block_on(async {
            match self.kind {
                StoreKind::Sqlite => sqlx::query_scalar(query).fetch_all(&mut self.sqlite().await).await,
                StoreKind::Postgres => sqlx::query_scalar(query).fetch_all(&mut self.postgres().await).await,
                StoreKind::MySql => sqlx::query_scalar(query).fetch_all(&mut self.mysql().await).await,
                StoreKind::Redis => panic!("Redis has no SQL"),
            }
        });
        rows.expect("the query runs").join(" ")
    }

    /// The options for this outbox, independent of the working directory.
    pub(crate) fn options(&self) -> Vec<String> {
        let url = match self.kind {
            StoreKind::Sqlite => format!("sqlite://{}", self.path("shop.db").display()),
            _ => self.url.clone(),
        };
        ["--store", &url].into_iter().chain(self.table_options()).map(str::to_owned).collect()
    }

    /// The same as settings of a configuration file: `store = …` and so on.
    pub(crate) fn toml(&self) -> String {
        let options = self.options();
        let keys =
            options.chunks(2).map(|pair| format!("{} = {:?}\n", pair[0].trim_start_matches('-'), pair[1]));
        keys.collect()
    }

    fn table_options(&self) -> Vec<&str> {
        match self.kind {
            StoreKind::Sqlite | StoreKind::MySql => Vec::new(),
            StoreKind::Postgres => vec!["--schema", &self.name],
            StoreKind::Redis => vec!["--table", &self.name],
        }
    }

    /// `posthaste` with these arguments on this outbox, without a terminal.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = posthaste(&[]);
        command.args(args.split_whitespace()).args(self.table_options());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("RUST_LOG").env("POSTHASTE_STORE", &self.url).env("USER", "ann");
        command
    }

    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        self.run_args(args, &[])
    }

    /// Runs `posthaste` with these arguments, and with `more`, which may contain spaces. What differs from run to run
    /// is replaced in the output.
    pub(crate) fn run_args(&self, args: &str, more: &[&str]) -> CommandOutput {
        let output = self.command(args).args(more).output().expect("the binary starts");
        let CommandOutput { code, stdout, stderr } = CommandOutput::of(output);
        CommandOutput { code, stdout: self.normalized(stdout), stderr: self.normalized(stderr) }
    }

    fn normalized(&self, text: String) -> String {
        if self.kind == StoreKind::Sqlite {
            return text;
        }
        let mut text = text.replace(&self.name, "shop");
        if self.kind != StoreKind::Redis {
            text = text.replace(&self.address(), "db.example/shop");
        }
        // MySQL may know this machine by its name or by its address.
        let text = text.replace(self.host(), "db.example").replace("@'127.0.0.1'", "@'localhost'");
        // PostgreSQL adds a line number of its own source code.
        let lines = text.split_inclusive('\n').map(|line| match line.split_once(" at line ") {
            Some((before, _)) => format!("{before}\n"),
            None => line.to_owned(),
        });
        lines.collect()
    }

    /// The one line of JSON that the program prints.
    pub(crate) fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --output json"));
        assert_eq!(output.stdout.lines().count(), 1, "one document on one line: {output}");
        serde_json::from_str(&output.stdout).expect("a JSON document")
    }

    /// Writes events with these ids in one transaction, with plain SQL. They have the type `Made` and the aggregate
    /// type `Order`.
    pub(crate) fn write(&self, ids: &[String]) {
        self.write_as("Made", ids);
    }

    /// The same with another type.
    pub(crate) fn write_as(&self, event_type: &str, ids: &[String]) {
        self.write_payload(event_type, ids, r#"{"n":1}"#);
    }

    /// The same with another payload, which is ignored on Redis.
    pub(crate) fn write_payload(&self, event_type: &str, ids: &[String], payload: &str) {
        if self.kind == StoreKind::Redis {
            return self.write_redis_ids(event_type, ids);
        }
        let rows: Vec<String> =
            ids.iter().map(|id| format!("('{id}', '{event_type}', 'Order', '{id}', '{payload}')")).collect();
        self.sql(&format!(
            "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload) VALUES {}",
            rows.join(", ")
        ));
    }

    /// Removes the outbox from the server.
    pub(crate) fn remove(&self) {
        match self.kind {
            StoreKind::Sqlite => {}
            StoreKind::Postgres => {
                self.sql(&format!("SET client_min_messages = warning; DROP SCHEMA {} CASCADE", self.name));
            }
            StoreKind::MySql => self.sql(&format!("DROP DATABASE {}", self.name)),
            StoreKind::Redis => self.remove_redis_keys(),
        }
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        if self.is_owner && !std::thread::panicking() {
            self.remove();
        }
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}
