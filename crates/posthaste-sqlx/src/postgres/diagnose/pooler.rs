//! Whether there is a pooler in transaction mode between the store and its server that the store was not
//! told of.

use posthaste::admin::Finding;
use sqlx::{PgConnection, Row as _};

use super::super::PgStore;
use super::super::connection::ConnectionPath;

/// Other clients of the pooler may come in between, so that one comparison is not enough.
const MAX_COMPARISONS: usize = 5;

pub(super) async fn finding(store: &PgStore) -> Option<Finding> {
    if store.connections().path() == ConnectionPath::PgBouncer {
        return None;
    }
    let is_pooled = store.connections().with_two(is_pooled).await.unwrap_or(false);
    is_pooled.then(|| {
        Finding::problem(
            "pgbouncer",
            "a PgBouncer or another pooler in transaction mode stands before the server, and the store was not \
             told so: settings, prepared statements and LISTEN get lost between two transactions",
            "say so with --pgbouncer, pgbouncer = true in the configuration, or .pgbouncer() in Rust; or connect to \
             the server itself",
        )
    })
}

/// Two connections that are both open have two processes on the server, always the same ones. Behind a pooler
/// both are lent the one that is free, or now this one and now that.
pub(crate) async fn is_pooled(one: &mut PgConnection, other: &mut PgConnection) -> sqlx::Result<bool> {
    let mut before = None;
    for _ in 0..MAX_COMPARISONS {
        let now = (process(one).await?, process(other).await?);
        if now.0 == now.1 || before.is_some_and(|before| before != now) {
            return Ok(true);
        }
        before = Some(now);
    }
    Ok(false)
}

/// Asked in the simple protocol: nothing is prepared.
async fn process(connection: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
