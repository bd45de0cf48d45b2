//! Whether the user may write what a relay writes into a foreign table, on MySQL and MariaDB.

use sqlx::{MySql, MySqlConnection};

use super::statements::ForeignStatements;
use crate::OpenError;
use crate::foreign::resolved_layout::ResolvedLayout;
use crate::mysql::connection::explain;
use crate::sql::ready;

/// The user as a GRANT names it.
const USER: &str = "SELECT CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@', \
  QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)))";

const READ_ONLY: &str = "SELECT CAST(@@read_only AS SIGNED)";

/// Whether this user may write back what becomes of events.
pub(super) async fn check(
    connection: &mut MySqlConnection,
    resolved: &ResolvedLayout,
    statements: &ForeignStatements,
    server: &str,
) -> Result<(), OpenError> {
    let failed = |error| explain(error, server);
    let only_reads: i64 = sqlx::query_scalar(READ_ONLY).fetch_one(&mut *connection).await.map_err(failed)?;
    if only_reads != 0 {
        return Err(OpenError::ReadOnlyServer { server: server.to_owned() });
    }
    let Err(error) = ready::<MySql>(&statements.nothing).execute(&mut *connection).await else {
        return Ok(());
    };
    let source = match explain(error, server) {
        OpenError::NotAllowed { source, .. } => source,
        other => return Err(other),
    };
    let user: String = sqlx::query_scalar(USER).fetch_one(connection).await.map_err(failed)?;
    let (server, right) = (server.to_owned(), resolved.right());
    let grant = format!("GRANT SELECT, {right} ON {} TO {user}", statements.table);
    Err(OpenError::NotGranted { table: resolved.layout.table_name().clone(), server, grant, source })
}
