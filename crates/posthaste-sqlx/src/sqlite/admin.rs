//! The SQL of SQLite for operator calls.

use std::ops::{Deref, DerefMut};

use posthaste::Timestamp;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteQueryResult;
use sqlx::{Sqlite, SqliteConnection};

use super::SqliteStore;
use super::connection::{Connections, Writing};
use super::row::{event_columns, row_columns};
use super::value;
use crate::queries::SqlQuery;
use crate::sql::Sql;
use crate::store::admin::{Access, AdminDialect};

const GET: &str =
    concat!("SELECT ", row_columns!(), ", ", event_columns!(), r#" FROM "{table}" WHERE event_id = ?1"#);

const GET_ARCHIVED: &str = concat!(
    "SELECT ",
    row_columns!(),
    ", ",
    event_columns!(),
    r#" FROM "{table}_archive" WHERE event_id = ?1 ORDER BY seq DESC LIMIT 1"#
);

/// Makes a DEAD row NEW, as if it had just been inserted, and counts the replay.
const REVIVE: &str = r#"UPDATE "{table}" SET status = 0, available_at = ?2, attempts = 0, deferrals = 0,
  lost_leases = 0, replays = replays + 1, last_error = NULL, done_at = NULL, parked = NULL,
  put_off_since = NULL, put_off_limit = NULL, locked_by = NULL, locked_at = NULL, lease_until = NULL, lease_token = 0,
  progress = iif(?3, NULL, progress)
WHERE seq IN (SELECT value FROM jsonb_each(?1)) AND status = 3"#;

const PAUSE: &str = r#"INSERT INTO "{table}_control" (route, paused_at, paused_by) VALUES (?1, ?2, ?3)
ON CONFLICT (route) DO NOTHING"#;

impl AdminDialect for Sqlite {
    const ROW_COLUMNS: &'static str = row_columns!();
    const GET: [&'static str; 2] = [GET, GET_ARCHIVED];
    /// Groups the newest DEAD rows only, so that the number of rows it reads is bounded.
    const DEAD_GROUPS: &'static str = r#"SELECT
  coalesce(aggregate_type, ?1), event_type, coalesce(substr(last_error, 1, 200), ''),
  count(*) AS total, min(done_at), max(done_at)
FROM (SELECT * FROM "{table}" INDEXED BY "{table}_dead" WHERE status = 3 ORDER BY seq DESC LIMIT 10000)
GROUP BY 1, 2, 3 ORDER BY total DESC, 2, 3 LIMIT ?2"#;
    const NOTE: &'static str =
        r#"INSERT INTO "{table}_audit" (actor, action, target, rows, at) VALUES (?1, ?2, ?3, ?4, ?5)"#;
    const RESUME: &'static str = r#"DELETE FROM "{table}_control" WHERE route = ?1"#;
    const AUDIT: &'static str = r#"SELECT seq, at, actor, action, target, rows FROM "{table}_audit"
WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2"#;
    /// Empty: a write transaction locks the whole file.
    const FOR_UPDATE: &'static str = "";

    fn rows_affected(result: &SqliteQueryResult) -> u64 {
        result.rows_affected()
    }

    fn pause(sql: &Sql, route: &str, actor: &str) -> SqlQuery<Self> {
        sql.query(PAUSE).bind(route.to_owned()).bind(Timestamp::now().as_micros()).bind(actor.to_owned())
    }

    async fn revive(
        store: &SqliteStore,
        connection: &mut SqliteConnection,
        seqs: &[i64],
        forget_progress: bool,
    ) -> sqlx::Result<u64> {
        let query = store.sql().query::<Sqlite>(REVIVE).bind(value::seqs(seqs));
        let query = query.bind(Timestamp::now().as_micros()).bind(forget_progress);
        Ok(query.execute(connection).await?.rows_affected())
    }

    type Session = Session;

    async fn open_session(connections: &Connections, access: Access) -> sqlx::Result<Session> {
        match access {
            Access::Read => Ok(Session::Read(connections.reader().await?)),
            Access::Write => Ok(Session::Write(connections.begin().await?)),
        }
    }

    async fn close_session<T: Send>(session: Session, result: sqlx::Result<T>) -> sqlx::Result<T> {
        match (session, result) {
            (Session::Write(tx), Ok(done)) => tx.commit().await.map(|()| done),
            (_, result) => result,
        }
    }
}

/// A connection for one operator call.
pub(crate) enum Session {
    Read(PoolConnection<Sqlite>),
    Write(Writing),
}

impl Deref for Session {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        match self {
            Self::Read(connection) => connection,
            Self::Write(tx) => tx,
        }
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match self {
            Self::Read(connection) => connection,
            Self::Write(tx) => tx,
        }
    }
}
