//! A schema of one's own on the server of this test run, and the binary to look at it with.

use std::process::Command;

use posthaste_testkit::sample_rows::{ROWS, insert};
use posthaste_testkit::{unique_name, variable};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection};

use crate::servers::command_on;
use crate::sqlite_outbox::{CommandOutput, block_on};

/// A schema that goes when the test ends.
pub(crate) struct PgOutbox {
    schema: String,
    url: String,
}

impl PgOutbox {
    /// A schema with nothing in it, under a name that nobody else uses.
    pub(crate) fn without_table() -> Self {
        Self::without_table_on(variable("POSTHASTE_TEST_POSTGRES_URL"))
    }

    fn without_table_on(url: String) -> Self {
        let shop = Self { schema: unique_name("cli"), url };
        shop.sql(&format!("CREATE SCHEMA {}", shop.schema));
        shop
    }

    pub(crate) fn empty() -> Self {
        Self::without_table().migrated()
    }

    /// An empty outbox on the server at this URL.
    pub(crate) fn empty_on(url: String) -> Self {
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
        shop.sql(&insert(&ROWS, |seconds| format!("to_timestamp({seconds})")));
        shop
    }

    /// The same server, database and schema, reached by another URL.
    pub(crate) fn with_url(&self, url: String) -> Self {
        Self { schema: self.schema.clone(), url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// `host:port/database` of the server.
    pub(crate) fn address(&self) -> String {
        let options = self.options();
        let database = options.get_database().expect("the URL names a database");
        format!("{}:{}/{database}", options.get_host(), options.get_port())
    }

    /// `host:port` of the server, as the URL has it.
    pub(crate) fn host(&self) -> String {
        let options = self.options();
        format!("{}:{}", options.get_host(), options.get_port())
    }

    fn options(&self) -> PgConnectOptions {
        self.url.parse().expect("a good URL")
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        let options = self.options().options([("search_path", &self.schema)]);
        options.connect().await.expect("the server is there")
    }

    /// Runs statements as another program would.
    pub(crate) fn sql(&self, statements: &str) {
        block_on(async {
            let mut connection = self.connect().await;
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

    /// Runs `posthaste` on this schema. What differs from run to run is taken out of what it says.
    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        let CommandOutput { code, stdout, stderr } = self.run_raw(args);
        CommandOutput { code, stdout: self.normalized(&stdout), stderr: self.normalized(&stderr) }
    }

    fn normalized(&self, text: &str) -> String {
        let (address, server) = (self.address(), self.host());
        let text = text.replace(&self.schema, "shop").replace(&address, "db.example/shop");
        let lines = text.replace(&server, "db.example");
        // The line in the server's own source.
        let lines = lines.split_inclusive('\n').map(|line| match line.split_once(" at line ") {
            Some((before, _)) => format!("{before}\n"),
            None => line.to_owned(),
        });
        lines.collect()
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
        let mut command = command_on(&self.url, args);
        command.args(["--schema", &self.schema]);
        command
    }

    /// Takes the schema away.
    pub(crate) fn end(self) {
        self.sql(&format!("SET client_min_messages = warning; DROP SCHEMA {} CASCADE", self.schema));
    }
}
