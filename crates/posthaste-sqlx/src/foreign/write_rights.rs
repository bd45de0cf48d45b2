//! Checks that the user may write the outcomes of events into a foreign table.

use super::resolved_layout::ResolvedLayout;
use super::server::Server;
use super::session::{BoundQuery, Session, text};
use crate::OpenError;

/// Checks that this user may write back the outcomes of events.
pub(super) async fn check(
    server: &dyn Server,
    session: &mut dyn Session,
    resolved: &ResolvedLayout,
) -> Result<(), OpenError> {
    let (failed, queries) = (|error| server.explain(error), &resolved.dialect.rights);
    let query = |text: &str| BoundQuery::new(text, Vec::new());
    if session.number(&query(queries.only_reads), "only_reads").await.map_err(failed)? != 0 {
        return Err(OpenError::ReadOnlyServer { server: server.name().to_owned() });
    }
    let write = format!("{}{}", queries.try_out, resolved.write_nothing());
    let Err(error) = session.execute(&query(&write)).await else { return Ok(()) };
    let source = match server.explain(error) {
        OpenError::NotAllowed { source, .. } => source,
        other => return Err(other),
    };
    let user: Vec<String> =
        session.rows(&query(queries.user), |row| text(row, "user_name")).await.map_err(failed)?;
    let (right, table, user) = (resolved.right(), &resolved.table, user.concat());
    let grant = format!("GRANT SELECT, {right} ON {table} TO {user}");
    let (table, server) = (resolved.layout.table_name().clone(), server.name().to_owned());
    Err(OpenError::NotGranted { table, server, grant, source })
}
