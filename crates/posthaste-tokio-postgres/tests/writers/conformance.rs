//! The Writer conformance suite on a bare client, on a client that keeps statements prepared, and on a pool.

use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use futures_util::future::BoxFuture;
use posthaste::conformance::{
    Elsewhere, OwnEnd, Scene, Script, ScriptError, Way, WriterCapabilities, WriterHarness,
};
use posthaste::{BoxError, Event, EventId, Receipt, WriteError};
use posthaste_testkit::writer_script::Statements;
use posthaste_tokio_postgres::{PgConnection, PgSavepoint, PgTx, PgWriter, PreparedClient};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Config, Error, Transaction};

use crate::support::{Db, connect};

const STATEMENTS: Statements = Statements::POSTGRES;

struct TokioPostgres<C> {
    db: Db,
    connect: Connect<C>,
    connection: Mutex<C>,
    scene: Scene,
    writer: PgWriter,
}

/// How a service gets a connection.
type Connect<C> = fn(Config) -> BoxFuture<'static, C>;

/// A connection of a service, and a transaction that the service began on it.
#[async_trait]
trait Service: PgConnection + Sized {
    async fn insert(
        &mut self,
        writer: &PgWriter,
        events: Vec<Event>,
        end: OwnEnd,
    ) -> Result<Result<Receipt, WriteError>, Error>;
}

/// Implements it for the two types of transactions, which have the same methods but no common trait.
macro_rules! insert_and_end {
    ($connection:expr, $writer:ident, $events:ident, $end:ident) => {{
        let mut tx = $connection.transaction().await?;
        let receipt = match $end {
            OwnEnd::SavepointReleased | OwnEnd::SavepointRolledBack => {
                let savepoint = tx.transaction().await?;
                let receipt = $writer.insert_all(&savepoint, $events).await;
                match $end {
                    OwnEnd::SavepointReleased => savepoint.commit().await?,
                    _ => savepoint.rollback().await?,
                }
                receipt
            }
            _ => $writer.insert_all(&tx, $events).await,
        };
        if $end == OwnEnd::Aborted {
            let _ = tx.batch_execute(STATEMENTS.aborts).await.expect_err("it fails");
        }
        match $end {
            OwnEnd::Rollback => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(receipt)
    }};
}

macro_rules! service {
    ($connection:ty) => {
        #[async_trait]
        impl Service for $connection {
            async fn insert(
                &mut self,
                writer: &PgWriter,
                events: Vec<Event>,
                end: OwnEnd,
            ) -> Result<Result<Receipt, WriteError>, Error> {
                insert_and_end!(self, writer, events, end)
            }
        }
    };
}

service!(Client);
service!(PreparedClient);
service!(Object);

impl<C: Service> TokioPostgres<C> {
    async fn on(connect: Connect<C>) -> Self {
        let db = Db::new().await;
        db.execute(STATEMENTS.refuse_unwritable).await;
        let scene = Scene::start(db.store.clone());
        let writer = PgWriter::new(&db.store, scene.outbox());
        let connection = Mutex::new(connect(db.config.clone()).await);
        Self { db, connect, connection, scene, writer }
    }
}

posthaste_testkit::play_scripts!(PgTx<'_>, PgSavepoint<'_>, execute);

async fn execute(tx: &Transaction<'_>, statement: &str) -> Result<(), BoxError> {
    tx.batch_execute(statement).await.map_err(BoxError::from)
}

#[async_trait]
impl<C: Service> WriterHarness for TokioPostgres<C> {
    fn scene(&self) -> &Scene {
        &self.scene
    }

    async fn run(&self, script: Script) -> Result<Vec<EventId>, ScriptError> {
        let mut connection = self.connection.lock().await;
        play_script(self.writer.begin(&mut *connection).await?, &STATEMENTS, script).await
    }

    async fn insert(&self, events: Vec<Event>, end: OwnEnd) -> Result<Receipt, WriteError> {
        let mut connection = self.connection.lock().await;
        connection.insert(&self.writer, events, end).await.expect("the transaction works")
    }

    /// It does not compile: see [`PgWriter::insert`].
    async fn insert_outside(&self, _: Event) -> Option<Result<Receipt, WriteError>> {
        None
    }

    async fn write_elsewhere(&self, event: Event, way: Way) -> Option<Elsewhere> {
        let other = self.db.copy().await;
        let mut connection = (self.connect)(other.config.clone()).await;
        let result = match way {
            Way::Transaction => {
                let tx = self.writer.begin(&mut connection).await.expect("a transaction");
                let result = tx.write(event).await.map(drop);
                let _ = tx.commit().await;
                result
            }
            Way::Receipt => {
                let result = connection.insert(&self.writer, vec![event], OwnEnd::Commit).await;
                result.expect("the transaction works").map(drop)
            }
        };
        drop(connection);
        Some(Elsewhere { answer: result, stored: other.close().await })
    }

    async fn business_rows(&self) -> Option<u64> {
        Some(self.db.int("SELECT count(*) FROM orders").await.cast_unsigned())
    }

    fn capabilities(&self) -> WriterCapabilities {
        WriterCapabilities::default().with_failed_statement_aborts(STATEMENTS.failed_statement_aborts)
    }

    async fn close(&self) {
        self.db.close().await;
    }
}

mod bare_client {
    use super::*;
    posthaste::writer_conformance!(
        TokioPostgres::on(|config| Box::pin(async move { connect(&config).await })).await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}

mod prepared_client {
    use super::*;
    posthaste::writer_conformance!(
        TokioPostgres::on(|config| Box::pin(async move { PreparedClient::new(connect(&config).await) })).await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}

mod pool {
    use super::*;
    posthaste::writer_conformance!(
        TokioPostgres::on(|config| Box::pin(async move { connection_of(&crate::support::pool(&config, 1)).await })).await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}

async fn connection_of(pool: &Pool) -> Object {
    pool.get().await.expect("a connection")
}
