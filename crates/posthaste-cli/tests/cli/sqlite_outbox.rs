//! A folder with a database, and the binary to look at it with.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use posthaste_sqlx::SqliteStore;
use posthaste_testkit::sample_rows::{DONE_LATER, ROWS, insert};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, SqliteConnection};
use tempfile::TempDir;

pub(crate) struct SqliteOutbox {
    folder: TempDir,
}

impl SqliteOutbox {
    /// A folder without a database.
    pub(crate) fn without_file() -> Self {
        Self { folder: TempDir::new().expect("a temporary folder") }
    }

    /// An empty outbox in `shop.db`.
    pub(crate) fn empty() -> Self {
        let shop = Self::without_file();
        block_on(async {
            let options = shop.options().create_if_missing(true);
            SqliteStore::builder(&options).migrate().connect().await.expect("the outbox opens").close().await;
        });
        shop
    }

    /// An outbox with rows in every state.
    pub(crate) fn seeded() -> Self {
        let shop = Self::empty();
        let rows = [&ROWS[..], &[DONE_LATER]].concat();
        shop.sql(&insert(&rows, |seconds| (seconds * 1_000_000).to_string()));
        shop
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A database without an outbox, in which these statements were run.
    pub(crate) fn with_sql(statements: &str) -> Self {
        let shop = Self::without_file();
        std::fs::write(shop.path("shop.db"), "").expect("the file can be written");
        shop.sql(statements);
        shop
    }

    /// Runs statements as another program would.
    pub(crate) fn sql(&self, statements: &str) {
        block_on(async {
            let mut connection = self.connect().await;
            sqlx::raw_sql(AssertSqlSafe(statements))
                .execute(&mut connection)
                .await
                .expect("the statements run");
        });
    }

    /// What a query answers, as one text.
    pub(crate) fn query(&self, query: &str) -> String {
        block_on(async {
            let mut connection = self.connect().await;
            let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query))
                .fetch_all(&mut connection)
                .await
                .expect("the query runs");
            rows.join(" ")
        })
    }

    pub(crate) async fn connect(&self) -> SqliteConnection {
        self.options().connect().await.expect("the file opens")
    }

    pub(crate) fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.path("shop.db"))
    }

    /// Runs `posthaste` with these words on `shop.db`, with nobody at the keyboard.
    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.run_args(&args)
    }

    pub(crate) fn run_args(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(args).output().expect("the binary starts"))
    }

    pub(crate) fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --output json"));
        assert_eq!(output.stdout.lines().count(), 1, "one document on one line: {output}");
        serde_json::from_str(&output.stdout).expect("a JSON document")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("RUST_LOG").env("POSTHASTE_STORE", "sqlite:shop.db").env("USER", "ann");
        command
    }
}

/// What the program said, and its exit code.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("no signal ended it"),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

impl fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "--- stderr\n{}", self.stderr)?;
        }
        write!(f, "--- exit code {}", self.code)
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}
