//! The error that a caller gets if PostgreSQL, or a pooler in front of it, refuses a COMMIT.

use diesel::connection::{Connection as _, SimpleConnection as _};
use diesel_async::{AsyncConnection as _, SimpleAsyncConnection as _};
use posthaste::{BoxError, CommitError};
use posthaste_diesel::{AsyncPgWriter, PgWriter};
use posthaste_sql_writer::WriterContext;

use crate::support::{Postgres, event};

/// A row of this table makes the COMMIT fail with the SQLSTATE in the row.
const FAILING_COMMIT_SQL: &str = "CREATE TABLE failing (code text);
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = NEW.code; END $$;
    CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON failing DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION fail()";

/// An SQLSTATE, and whether it proves a rollback. Only the server itself can report a violated constraint. PgBouncer
/// reports the other code for a server that it has lost, which may have committed.
const ERROR_CODES: [(&str, bool); 2] = [("23514", true), ("08P01", false)];

fn commit(writer: &PgWriter, url: &str, code: &str) -> Result<(), BoxError> {
    let mut connection = diesel::PgConnection::establish(url)?;
    writer.transaction(&mut connection, |tx| {
        tx.conn().batch_execute(&format!("INSERT INTO failing VALUES ('{code}')"))?;
        tx.write(event(code))?;
        Ok::<_, BoxError>(())
    })
}

async fn commit_async(writer: &AsyncPgWriter, url: &str, code: &str) -> Result<(), BoxError> {
    let mut connection = diesel_async::AsyncPgConnection::establish(url).await?;
    let mut tx = writer.begin(&mut connection).await?;
    tx.conn().batch_execute(&format!("INSERT INTO failing VALUES ('{code}')")).await?;
    tx.write(event(code)).await?;
    Ok(tx.commit().await?)
}

#[track_caller]
fn assert_commit_error(result: &Result<(), BoxError>, code: &str, is_rolled_back: bool) {
    let outcome = result.as_ref().expect_err("it fails").downcast_ref::<CommitError>();
    match outcome {
        Some(CommitError::RolledBack(_)) => assert!(is_rolled_back, "{code}: the outcome is unknown"),
        Some(CommitError::Unknown(_)) => assert!(!is_rolled_back, "{code}: the server refused it"),
        _ => panic!("{code}: {result:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_is_reported_as_rolled_back_only_if_the_server_itself_refused_it() {
    let db = Postgres::open().await;
    db.execute(FAILING_COMMIT_SQL).await;
    let context =
        WriterContext::<posthaste_sql_writer::Postgres>::writer_only().schema(db.schema().clone()).build();
    let (blocking, asynchronous) =
        (PgWriter::from_context(context.clone()), AsyncPgWriter::from_context(context));
    for (code, is_rolled_back) in ERROR_CODES {
        let (writer, url) = (blocking.clone(), db.url());
        let result = tokio::task::spawn_blocking(move || commit(&writer, &url, code)).await.unwrap();
        assert_commit_error(&result, code, is_rolled_back);
        assert_commit_error(&commit_async(&asynchronous, &db.url(), code).await, code, is_rolled_back);
    }
    db.close().await;
}
