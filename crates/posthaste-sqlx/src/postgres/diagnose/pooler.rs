//! Detects a pooler in transaction mode that the store was not configured for.

use posthaste::admin::Finding;
use sqlx::{PgConnection, Row as _};

use super::super::PgStore;
use super::super::connection::ConnectionPath;

/// Other clients of the pooler may use its connections in between, so one comparison is not enough.
const MAX_COMPARISONS: usize = 5;

pub(super) async fn finding(store: &PgStore) -> Option<Finding> {
    if store.connections().path() == ConnectionPath::PgBouncer {
        return None;
    }
    let is_pooled = store.connections().with_two(is_pooled).await.unwrap_or(false);
    is_pooled.then(|| {
        Finding::problem(
            "pgbouncer",
            "PgBouncer or another pooler in transaction mode is in front of the server, and the store is \
             not configured for it: settings, prepared statements and LISTEN get lost between two transactions",
            "set --pgbouncer, pgbouncer = true in the configuration, or .pgbouncer() in Rust; or connect \
             directly to the server",
        )
    })
}

/// Two open connections have two server processes, and each keeps its own. Behind a pooler both get the one that is
/// free, or different ones at different times.
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

/// Uses the simple protocol, which prepares nothing.
async fn process(connection: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
