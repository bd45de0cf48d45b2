//! What looks wrong with the rows. Nothing here reads more than a bounded number of them.

use sqlx::SqliteConnection;

use super::value::lossy;
use crate::probe::count;
use crate::signs::Signs;
use crate::sql::Sql;

/// The oldest rows only: a sign that something is wrong, not a census.
const UNREADABLE: &str = r#"SELECT count(*) FROM (
  SELECT headers, attempts, available_at FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 10000)
WHERE attempts < 0 OR typeof(attempts) <> 'integer' OR typeof(available_at) NOT IN ('integer', 'real')
   OR CASE WHEN trim(coalesce(headers, '')) IN ('', 'null') THEN 0 WHEN json_valid(headers)
        THEN json_type(headers) <> 'object' OR EXISTS (SELECT 1 FROM json_each(headers) WHERE type <> 'text')
        ELSE 1 END"#;

/// The first route behind this one for which events wait, and how many do: up to one more than a finding
/// names.
pub(super) const PARKED: &str = r#"SELECT min(parked), count(*) FROM (
  SELECT parked FROM "{table}" INDEXED BY "{table}_parked" WHERE parked = (
    SELECT parked FROM "{table}" INDEXED BY "{table}_parked" WHERE parked > ?1 ORDER BY parked LIMIT 1)
  LIMIT 100001)"#;

pub(super) async fn read(sql: &Sql, connection: &mut SqliteConnection) -> Result<Signs, sqlx::Error> {
    let unreadable: i64 = sql.scalar(UNREADABLE).fetch_one(&mut *connection).await?;
    let mut signs = Signs::new(unreadable.unsigned_abs() as usize);
    while let Some(last) = signs.last_route() {
        let query = sql.query(PARKED).bind(last.to_owned());
        let row = query.fetch_one(&mut *connection).await?;
        let waiting = count(&row, 1)?;
        if waiting == 0 {
            break;
        }
        signs.add_route(lossy(&row, 0)?, waiting);
    }
    Ok(signs)
}
