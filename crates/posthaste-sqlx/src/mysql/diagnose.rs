//! What looks wrong with the rows. Nothing here reads more than a bounded number of them.

use posthaste::decode_headers;
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use crate::probe::count;
use crate::signs::Signs;
use crate::sql::Sql;

/// The oldest rows only: a sign that something is wrong, not a census.
const DOUBTFUL: &str = "SELECT attempts < 0, headers FROM (
  SELECT headers, attempts FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0
  ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR TRIM(headers) NOT IN ('', 'null', '{}')";

/// The first route behind this one for which events wait, and how many do: up to one more than a finding
/// names.
pub(super) const PARKED: &str = "SELECT MIN(parked), COUNT(*) FROM (
  SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked = (
    SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked > ? ORDER BY parked LIMIT 1)
  LIMIT 100001) AS waiting";

pub(super) async fn read(sql: &Sql, connection: &mut MySqlConnection) -> Result<Signs, sqlx::Error> {
    let rows = sql.query::<MySql>(DOUBTFUL).fetch_all(&mut *connection).await?;
    let mut signs = Signs::new(rows.iter().filter(|row| is_unreadable(row)).count());
    while let Some(last) = signs.last_route() {
        let query = sql.query::<MySql>(PARKED).bind(last.to_owned());
        let row = query.fetch_one(&mut *connection).await?;
        let waiting = count(&row, 1)?;
        if waiting == 0 {
            break;
        }
        signs.add_route(row.try_get(0)?, waiting);
    }
    Ok(signs)
}

fn is_unreadable(row: &MySqlRow) -> bool {
    let negative = row.try_get::<i64, _>(0).map_or(true, |negative| negative != 0);
    negative || row.try_get(1).map_or(true, |headers| decode_headers(headers).is_err())
}
