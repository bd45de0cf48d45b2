//! Deadlocks on MySQL and MariaDB: the server rolls the transaction back and reports it only to the statement that
//! failed. It would commit every later statement by itself.

use diesel::connection::{Connection as _, SimpleConnection as _};
use diesel::{MysqlConnection, QueryResult};
use diesel_async::{AsyncConnection as _, AsyncMysqlConnection, SimpleAsyncConnection as _};
use posthaste::conformance::{Scene, ScriptError};
use posthaste::{Admin as _, CommitError, StoreError, WriteError};
use posthaste_diesel::{AsyncMySqlWriter, MySqlWriter};
use sqlx::{MySql as Sqlx, Transaction};

use crate::support::{EarlyEnd, MySql, event};

const OWN_UPDATE_SQL: &str = "UPDATE locks SET n = n + 1 WHERE id = 1";
const RIVAL_UPDATE_SQL: &str = "UPDATE locks SET n = n + 1 WHERE id = 2";

/// Another transaction that holds the lock that the tested transaction wants, and waits for the lock that it holds. It
/// has changed more rows, so the server ends the tested transaction.
struct Rival {
    waiting: tokio::task::JoinHandle<()>,
}

impl Rival {
    /// Creates the rows that both transactions lock.
    async fn prepare(db: &MySql) {
        db.execute("CREATE TABLE locks (id INT PRIMARY KEY, n INT NOT NULL)").await;
        db.execute("CREATE TABLE ballast (id INT AUTO_INCREMENT PRIMARY KEY)").await;
        db.execute("INSERT INTO locks VALUES (1, 0), (2, 0)").await;
    }

    async fn begin(db: &MySql) -> Transaction<'static, Sqlx> {
        let mut tx = db.pool.begin().await.expect("it begins");
        for _ in 0..100 {
            sqlx::query("INSERT INTO ballast () VALUES (), (), ()").execute(&mut *tx).await.expect("ballast");
        }
        sqlx::query(RIVAL_UPDATE_SQL).execute(&mut *tx).await.expect("the lock is free");
        tx
    }

    /// Makes the rival wait for the lock of the tested transaction; returns when it waits.
    async fn wait_for_ours(db: &MySql, mut tx: Transaction<'static, Sqlx>) -> Self {
        let waiting = tokio::spawn(async move {
            sqlx::query(OWN_UPDATE_SQL).execute(&mut *tx).await.expect("the rival gets the lock");
            tx.rollback().await.expect("the rollback works");
        });
        let waits = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND \
                     trx_query LIKE 'UPDATE locks%'";
        // The server returns a cached result to a query within a tenth of a second.
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(200));
        ticks.tick().await;
        while sqlx::query_scalar::<_, i64>(waits).fetch_one(&db.pool).await.expect("a count") == 0 {
            ticks.tick().await;
        }
        Self { waiting }
    }

    async fn end(self) {
        self.waiting.await.expect("the rival does not panic");
    }
}

fn assert_deadlock(result: QueryResult<()>) {
    let error = result.expect_err("the server ends the transaction");
    assert!(error.to_string().contains("Deadlock"), "{error}");
}

fn assert_no_transaction(result: Result<impl Sized, WriteError>) {
    let error = result.err().expect("nothing is written outside a transaction");
    assert!(matches!(error, WriteError::Store(StoreError::NoTransaction)), "{error:?}");
}

fn assert_rolled_back(result: Result<(), EarlyEnd>) {
    let rolled_back =
        matches!(result, Err(EarlyEnd::Script(ScriptError::Commit(CommitError::RolledBack(_)))));
    assert!(rolled_back, "{result:?}");
}

async fn assert_nothing_stays(db: &MySql, scene: &Scene) {
    assert_eq!(db.store.stats().await.expect("the store works").new, 0);
    scene.outbox().idle().await.expect("the store works");
    assert_eq!(db.orders().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn transaction_that_a_deadlock_ended_delivers_nothing_and_refuses_further_writes() {
    let db = MySql::open().await;
    Rival::prepare(&db).await;
    let scene = Scene::start(db.store.clone());
    let writer = MySqlWriter::new(&db.store, scene.outbox());
    let db = std::sync::Arc::new(db);
    let blocking = {
        let db = std::sync::Arc::clone(&db);
        move || {
            let runtime = tokio::runtime::Handle::current();
            let mut connection = MysqlConnection::establish(&db.url()).expect("a connection");
            let fight = |connection: &mut MysqlConnection| {
                let rival = runtime.block_on(Rival::begin(&db));
                connection.batch_execute(OWN_UPDATE_SQL).expect("the lock is free");
                let rival = runtime.block_on(Rival::wait_for_ours(&db, rival));
                assert_deadlock(connection.batch_execute(RIVAL_UPDATE_SQL));
                runtime.block_on(rival.end());
            };
            let result = writer.transaction(&mut connection, |tx| {
                tx.write(event("undone"))?;
                tx.conn().batch_execute(MySql::STATEMENTS.business)?;
                fight(tx.conn());
                // The closure ignores the error.
                assert_no_transaction(tx.write(event("late")));
                Ok::<_, EarlyEnd>(())
            });
            assert_rolled_back(result);
            let own = connection.transaction(|connection| {
                fight(connection);
                assert_no_transaction(writer.insert(connection, event("later")));
                QueryResult::Ok(())
            });
            own.expect("the server returns Ok although the transaction ended");
        }
    };
    tokio::task::spawn_blocking(blocking).await.expect("the test does not panic");
    assert_nothing_stays(&db, &scene).await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn async_transaction_that_a_deadlock_ended_delivers_nothing_and_refuses_further_writes() {
    let db = MySql::open().await;
    Rival::prepare(&db).await;
    let scene = Scene::start(db.store.clone());
    let writer = AsyncMySqlWriter::new(&db.store, scene.outbox());
    let mut connection = AsyncMysqlConnection::establish(&db.url()).await.expect("a connection");
    let fight = async |connection: &mut AsyncMysqlConnection| {
        let rival = Rival::begin(&db).await;
        connection.batch_execute(OWN_UPDATE_SQL).await.expect("the lock is free");
        let rival = Rival::wait_for_ours(&db, rival).await;
        assert_deadlock(connection.batch_execute(RIVAL_UPDATE_SQL).await);
        rival.end().await;
    };
    let result = writer.transaction(&mut connection, async |tx| {
        tx.write(event("undone")).await?;
        tx.conn().batch_execute(MySql::STATEMENTS.business).await?;
        fight(tx.conn()).await;
        // The closure ignores the error.
        assert_no_transaction(tx.write(event("late")).await);
        Ok::<_, EarlyEnd>(())
    });
    assert_rolled_back(result.await);
    assert_nothing_stays(&db, &scene).await;
    db.close().await;
}
