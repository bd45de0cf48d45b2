//! What a caller is told of a COMMIT that PostgreSQL, or a pooler before it, answers with an error.

use diesel::connection::{Connection as _, SimpleConnection as _};
use diesel_async::{AsyncConnection as _, SimpleAsyncConnection as _};
use posthaste::{BoxError, CommitError};
use posthaste_diesel::{AsyncPgWriter, PgWriter};
use posthaste_sql_writer::WriterContext;

use crate::support::{Postgres, event};

/// The COMMIT after a row of this table fails with the code in it.
const FAILING_COMMIT_SQL: &str = "CREATE TABLE failing (code text);
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = NEW.code; END $$;
    CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON failing DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION fail()";

/// A violated constraint only the server itself can mean. The other code is what PgBouncer says for a server that
/// it has lost, which may have committed.
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
fn assert_commit_error(answer: &Result<(), BoxError>, code: &str, is_rolled_back: bool) {
    let outcome = answer.as_ref().expect_err("it fails").downcast_ref::<CommitError>();
    match outcome {
        Some(CommitError::RolledBack(_)) => assert!(is_rolled_back, "{code}: nobody knows"),
        Some(CommitError::Unknown(_)) => assert!(!is_rolled_back, "{code}: the server has said no"),
        _ => panic!("{code}: {answer:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_is_called_rolled_back_only_where_the_server_itself_has_said_no() {
    let db = Postgres::open().await;
    db.execute(FAILING_COMMIT_SQL).await;
    let context =
        WriterContext::<posthaste_sql_writer::Postgres>::writer_only().schema(db.schema().clone()).build();
    let (at_once, later) = (PgWriter::from_context(context.clone()), AsyncPgWriter::from_context(context));
    for (code, is_rolled_back) in ERROR_CODES {
        let (writer, url) = (at_once.clone(), db.url());
        let answer = tokio::task::spawn_blocking(move || commit(&writer, &url, code)).await.unwrap();
        assert_commit_error(&answer, code, is_rolled_back);
        assert_commit_error(&commit_async(&later, &db.url(), code).await, code, is_rolled_back);
    }
    db.close().await;
}
