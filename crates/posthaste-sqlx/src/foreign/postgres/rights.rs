//! Whether the user may write what a relay writes into a foreign table, on PostgreSQL.

use std::sync::Arc;

use sqlx::error::DatabaseError;
use sqlx::{PgConnection, Postgres};

use crate::OpenError;
use crate::foreign::resolved_layout::ResolvedLayout;
use crate::postgres::connection::explain;
use crate::sql::ready;

const ONLY_READS: &str = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool";

/// The code of the error for a right that is missing.
const NOT_GRANTED: &str = "42501";

/// Whether this user may write back what becomes of events. A plan is enough to know, and sets off no trigger.
pub(super) async fn check(
    connection: &mut PgConnection,
    resolved: &ResolvedLayout,
    table: &str,
    server: &str,
) -> Result<(), OpenError> {
    let failed = |error| explain(error, server);
    if sqlx::query_scalar(ONLY_READS).fetch_one(&mut *connection).await.map_err(failed)? {
        return Err(OpenError::ReadOnlyServer { server: server.to_owned() });
    }
    let text: Arc<str> = format!("EXPLAIN {}", resolved.write_nothing(table)).into();
    let Err(source) = ready::<Postgres>(&text).execute(&mut *connection).await else { return Ok(()) };
    if source.as_database_error().and_then(DatabaseError::code).as_deref() != Some(NOT_GRANTED) {
        return Err(explain(source, server));
    }
    let user = sqlx::query_scalar("SELECT quote_ident(current_user)").fetch_one(connection).await;
    let user: String = user.map_err(failed)?;
    let (server, right) = (server.to_owned(), resolved.right());
    let grant = format!("GRANT SELECT, {right} ON {table} TO {user}");
    Err(OpenError::NotGranted { table: resolved.layout.table_name().clone(), server, grant, source })
}
