//! Shared by the tests: a schema with an outbox of its own, and connections to it.
//!
//! The server is the one that `POSTHASTE_TEST_POSTGRES_URL` names; `cargo xtask test` starts one.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use posthaste::{Outbox, Routes};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_sqlx::{PgStore, SchemaName};
use posthaste_testkit::proxy::BrokenCommit;
use posthaste_testkit::unique_name;
use posthaste_testkit::writer_script::Statements;
pub use posthaste_testkit::{drop_after, event, events, variable, wait_until, within_timeout};
use posthaste_tokio_postgres::PgWriter;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

pub fn url() -> String {
    variable("POSTHASTE_TEST_POSTGRES_URL")
}

/// A schema for one test, with an outbox, a table of orders and the configuration with which a service connects.
pub struct Db {
    pub store: PgStore,
    pub schema: SchemaName,
    pub config: Config,
}

impl Db {
    pub async fn new() -> Self {
        Self::open(|builder| builder).await
    }

    pub async fn open(change: impl FnOnce(PgStoreBuilder) -> PgStoreBuilder) -> Self {
        let schema: SchemaName = unique_name("p").parse().expect("a valid name");
        let builder = PgStore::builder(&url().parse().expect("a valid URL")).schema(schema.clone());
        let store = change(builder).migrate().connect().await.expect("the store opens");
        let mut config: Config = url().parse().expect("a valid URL");
        config.options(format!("-c search_path={schema}"));
        let db = Self { store, schema, config };
        db.execute(Statements::POSTGRES.orders).await;
        db
    }

    pub async fn connect(&self) -> Client {
        connect(&self.config).await
    }

    pub fn pool(&self, size: usize) -> Pool {
        pool(&self.config, size)
    }

    /// A Writer without an engine: its rows wait for another process.
    pub fn plain_writer(&self) -> PgWriter {
        let outbox = Outbox::builder(self.store.clone(), Routes::new())
            .writer_only()
            .build()
            .expect("a valid configuration");
        PgWriter::new(&self.store, &outbox)
    }

    pub async fn execute(&self, sql: &str) {
        self.connect().await.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn int(&self, sql: &str) -> i64 {
        self.connect().await.query_one(sql, &[]).await.expect("one value").get(0)
    }

    /// The ids in the table, in the order of their insertion.
    pub async fn ids(&self) -> Vec<String> {
        let rows = self.connect().await.query("SELECT event_id FROM outbox_event ORDER BY seq", &[]).await;
        rows.expect("rows").iter().map(|row| row.get(0)).collect()
    }

    pub async fn close(&self) {
        self.store.close().await;
        self.execute(&format!(r#"DROP SCHEMA IF EXISTS "{}" CASCADE"#, self.schema)).await;
    }
}

/// Another database with an outbox of the same name and the same creation time.
pub struct DatabaseCopy {
    pub config: Config,
    store: PgStore,
    name: String,
}

impl Db {
    pub async fn copy(&self) -> DatabaseCopy {
        let name = self.schema.to_string();
        self.execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let url = url();
        let (server, _) = url.rsplit_once('/').expect("a URL with a database");
        let options = format!("{server}/{name}").parse().expect("a valid URL");
        let store = PgStore::builder(&options).schema(self.schema.clone());
        let store = store.migrate().connect().await.expect("the store opens");
        let mut config = self.config.clone();
        config.dbname(&name);
        let born = "SELECT applied_at::text FROM outbox_event_schema";
        let born: String = self.connect().await.query_one(born, &[]).await.expect("a time").get(0);
        let same = format!("UPDATE outbox_event_schema SET applied_at = '{born}'");
        connect(&config).await.batch_execute(&same).await.expect("the same creation time");
        DatabaseCopy { config, store, name }
    }
}

impl DatabaseCopy {
    /// Drops the database; returns the number of events in it.
    pub async fn close(self) -> u64 {
        let count = "SELECT count(*) FROM outbox_event";
        let events: i64 = connect(&self.config).await.query_one(count, &[]).await.expect("a count").get(0);
        self.store.close().await;
        let mut config = self.config;
        config.dbname(url().rsplit('/').next().expect("a database"));
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        connect(&config).await.batch_execute(&drop).await.expect("the database goes");
        events.cast_unsigned()
    }
}

pub async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

pub fn pool(config: &Config, size: usize) -> Pool {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), NoTls, recycling);
    Pool::builder(manager).max_size(size).build().expect("a pool")
}

/// A proxy in front of this server that can lose a COMMIT, and the configuration to connect through it.
pub async fn broken_commit(server: &Config) -> (BrokenCommit, Config) {
    let Host::Tcp(host) = &server.get_hosts()[0] else { panic!("a server on TCP") };
    let proxy = BrokenCommit::to(host, server.get_ports()[0]).await;
    let mut config = Config::new();
    config.host("127.0.0.1").port(proxy.port()).user(server.get_user().unwrap_or("postgres"));
    config.dbname(server.get_dbname().unwrap_or("postgres"));
    config.options(server.get_options().unwrap_or_default());
    (proxy, config)
}
