//! A database of one's own on the server of this test run, and the binary to look at it with.

use std::process::Command;

use posthaste_testkit::sample_rows::{ROWS, insert};
use posthaste_testkit::{unique_name, variable};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, MySqlConnection};

use crate::servers::command_on;
use crate::sqlite_outbox::{CommandOutput, block_on};

/// A database that goes when the test ends.
pub(crate) struct MySqlOutbox {
    /// The server as the test run names it, with another database.
    server: MySqlConnectOptions,
    database: String,
    url: String,
}

impl MySqlOutbox {
    /// A database with nothing in it, under a name that nobody else uses.
    pub(crate) fn without_table() -> Self {
        Self::without_table_on(&variable("POSTHASTE_TEST_MYSQL_URL"))
    }

    fn without_table_on(url: &str) -> Self {
        let database = unique_name("cli");
        let (outbox, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (server, _) = outbox.rsplit_once('/').expect("the URL names a database");
        let shop = Self {
            server: url.parse().expect("a good URL"),
            url: format!("{server}/{database}?{parameters}"),
            database,
        };
        shop.run_on(&shop.server, &format!("CREATE DATABASE {}", shop.database));
        shop
    }

    pub(crate) fn empty() -> Self {
        Self::without_table().migrated()
    }

    /// An empty outbox on the server at this URL.
    pub(crate) fn empty_on(url: &str) -> Self {
        Self::without_table_on(url).migrated()
    }

    fn migrated(self) -> Self {
        let output = self.run("migrate apply");
        assert_eq!(output.code, 0, "{output}");
        self
    }

    /// An outbox with rows in every state.
    pub(crate) fn seeded() -> Self {
        let shop = Self::empty();
        shop.sql(&insert(&ROWS, |seconds| format!("TIMESTAMPADD(SECOND, {seconds}, '1970-01-01')")));
        shop
    }

    /// The same database, reached by another URL.
    pub(crate) fn with_url(&self, url: String) -> Self {
        Self { server: self.server.clone(), database: self.database.clone(), url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// `host:port` of the server.
    pub(crate) fn host(&self) -> String {
        let options = self.options();
        format!("{}:{}", options.get_host(), options.get_port())
    }

    /// `host:port/database`.
    pub(crate) fn address(&self) -> String {
        format!("{}/{}", self.host(), self.database)
    }

    pub(crate) async fn connect(&self) -> MySqlConnection {
        self.options().connect().await.expect("the server is there")
    }

    fn options(&self) -> MySqlConnectOptions {
        self.url.parse().expect("a good URL")
    }

    /// Runs statements as another program would.
    pub(crate) fn sql(&self, statements: &str) {
        self.run_on(&self.options(), statements);
    }

    fn run_on(&self, options: &MySqlConnectOptions, statements: &str) {
        block_on(async {
            let mut connection: MySqlConnection = options.connect().await.expect("the server is there");
            let statements = sqlx::raw_sql(AssertSqlSafe(statements));
            statements.execute(&mut connection).await.expect("the statements run");
        });
    }

    /// What a query answers, as one text.
    pub(crate) fn query(&self, query: &str) -> String {
        block_on(async {
            let mut connection = self.connect().await;
            let query = sqlx::query_scalar(AssertSqlSafe(query));
            let rows: Vec<String> = query.fetch_all(&mut connection).await.expect("the query runs");
            rows.join(" ")
        })
    }

    /// Runs `posthaste` on this database. What differs from run to run is taken out of what it says.
    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        let CommandOutput { code, stdout, stderr } = self.run_raw(args);
        CommandOutput { code, stdout: self.normalized(&stdout), stderr: self.normalized(&stderr) }
    }

    fn normalized(&self, text: &str) -> String {
        let text = text.replace(&self.database, "shop").replace(&self.host(), "db.example");
        // The server may know this machine by its name or by its address.
        text.replace("@'127.0.0.1'", "@'localhost'")
    }

    pub(crate) fn run_raw(&self, args: &str) -> CommandOutput {
        CommandOutput::of(self.command(args).output().expect("the binary starts"))
    }

    pub(crate) fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --output json"));
        assert_eq!(output.stdout.lines().count(), 1, "one document on one line: {output}");
        serde_json::from_str(&output.stdout).expect("a JSON document")
    }

    pub(crate) fn command(&self, args: &str) -> Command {
        command_on(&self.url, args)
    }

    /// Takes the database away.
    pub(crate) fn end(self) {
        self.run_on(&self.server, &format!("DROP DATABASE {}", self.database));
    }
}
