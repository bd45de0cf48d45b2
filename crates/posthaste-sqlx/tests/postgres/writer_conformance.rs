//! The Writers' suite on PostgreSQL.

use async_trait::async_trait;
use posthaste::conformance::{
    Elsewhere, End, OwnEnd, Scene, Script, ScriptError, Way, WriterCapabilities, WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_sqlx::postgres::PgSavepoint;
use posthaste_sqlx::{PgStore, PgTx, PgWriter};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool};

use crate::support::writer_script::Statements;
use crate::support::{Db, administrator, pool_in, run, server, text_of};

const STATEMENTS: Statements =
    Statements { business: "INSERT INTO orders DEFAULT VALUES", fails: "SELECT 1/0", aborts: "SELECT 1/0" };

struct Postgres {
    db: Db,
    scene: Scene,
    writer: PgWriter,
}

impl Postgres {
    async fn new() -> Self {
        let db = Db::with_pool(2).await;
        db.execute("CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY)").await;
        db.execute("ALTER TABLE outbox_event ADD CHECK (event_type <> 'Unwritable')").await;
        let scene = Scene::start(db.store.clone());
        let writer = db.store.writer(scene.outbox());
        Self { db, scene, writer }
    }

    async fn insert_and_end(
        &self,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> Result<Result<Receipt, WriteError>, sqlx::Error> {
        let mut tx = self.db.pool.begin().await?;
        let receipt = match end {
            OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack => {
                let mut savepoint = tx.begin().await?;
                let receipt = self.writer.insert_all(&mut savepoint, events).await;
                match end {
                    OwnEnd::SavepointReleased => savepoint.commit().await?,
                    _ => savepoint.rollback().await?,
                }
                receipt
            }
            _ => self.writer.insert_all(&mut tx, events).await,
        };
        if end == OwnEnd::Aborted {
            let _ = tx.execute(STATEMENTS.aborts).await.expect_err("it fails");
        }
        match end {
            OwnEnd::Rollback => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(receipt)
    }
}

/// Another database with an outbox of the same name, which says of itself that it is as old as this one.
struct DatabaseCopy {
    pool: PgPool,
    store: PgStore,
    name: String,
}

impl DatabaseCopy {
    async fn of(db: &Db) -> Self {
        let name = db.schema.to_string();
        administrate(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let options = server().database(&name);
        let store = PgStore::builder(&options).schema(db.schema.clone()).migrate().connect().await;
        let pool = pool_in(&db.schema, options, 1).await;
        let born = db.text("SELECT applied_at FROM outbox_event_schema").await.expect("a time");
        run(&pool, &format!("UPDATE outbox_event_schema SET applied_at = '{born}'")).await.expect("done");
        Self { pool, store: store.expect("the store opens"), name }
    }

    /// Returns how many events it had.
    async fn close(self) -> u64 {
        let events = text_of(&self.pool, "SELECT count(*) FROM outbox_event").await;
        self.pool.close().await;
        self.store.close().await;
        administrate(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
        events.expect("a count").parse().expect("a number")
    }
}

async fn administrate(sql: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut administrator().await).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

posthaste_testkit::play_scripts!(PgTx, PgSavepoint<'_>, STATEMENTS, execute);

async fn execute(connection: &mut PgConnection, statement: &'static str) -> Result<(), BoxError> {
    connection.execute(statement).await?;
    Ok(())
}

#[async_trait]
impl WriterHarness for Postgres {
    fn scene(&self) -> &Scene {
        &self.scene
    }

    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
        let mut tx = self.writer.begin(&self.db.pool).await?;
        let mut written = Vec::new();
        play(&mut tx, script.steps, &mut written).await?;
        match script.end {
            End::Commit => tx.commit().await?,
            End::Rollback => tx.rollback().await?,
            End::Drop => drop(tx),
        }
        Ok(written)
    }

    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
        self.insert_and_end(events, end).await.expect("the transaction works")
    }

    async fn insert_outside(&self, event: Event) -> Option<Result<Receipt, WriteError>> {
        let mut connection = self.db.pool.acquire().await.expect("a connection");
        Some(self.writer.insert(&mut connection, event).await)
    }

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        let other = DatabaseCopy::of(&self.db).await;
        let answer = posthaste_testkit::write_elsewhere!(self.writer, &other.pool, event, way, "BEGIN");
        Some(Elsewhere { answer, stored: other.close().await })
    }

    async fn business_rows(&self) -> Option<u64> {
        Some(self.db.int("SELECT count(*) FROM orders").await.cast_unsigned())
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities { failed_statement_aborts: true }
    }

    async fn close(&self) {
        self.db.pool.close().await;
        self.db.store.close().await;
        crate::support::drop_schema(&self.db.schema).await;
    }
}

posthaste::writer_conformance!(Postgres::new().await, #[ignore = "needs PostgreSQL: cargo xtask test"]);
