//! What looks wrong with the rows. Nothing here reads more than a bounded number of them.

use posthaste::decode_headers;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::stats::read_in_order;
use super::value;
use crate::probe::count;
use crate::signs::Signs;
use crate::sql::Sql;

/// The oldest rows only: a sign that something is wrong, not a census.
pub(super) const DOUBTFUL: &str = r#"SELECT attempts < 0, headers FROM (
  SELECT headers, attempts FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR trim(headers) NOT IN ('', 'null', '{}')"#;

/// The first route behind this one for which events wait, and how many do: up to one more than a finding
/// names.
pub(super) const PARKED: &str = r#"SELECT min(parked), count(*) FROM (
  SELECT parked FROM "{table}" WHERE parked = (
    SELECT parked FROM "{table}" WHERE parked > $1 ORDER BY parked LIMIT 1) LIMIT 100001) AS waiting"#;

pub(super) async fn read(sql: &Sql, connection: &mut PgConnection) -> Result<Signs, sqlx::Error> {
    read_in_order(connection).await?;
    let rows = sql.fresh::<Postgres>(DOUBTFUL).fetch_all(&mut *connection).await?;
    let mut signs = Signs::new(rows.iter().filter(|row| is_unreadable(row)).count());
    while let Some(last) = signs.last_route() {
        let query = sql.fresh::<Postgres>(PARKED).bind(value::text(last).into_owned());
        let row = query.fetch_one(&mut *connection).await?;
        let waiting = count(&row, 1)?;
        if waiting == 0 {
            break;
        }
        signs.add_route(row.try_get(0)?, waiting);
    }
    Ok(signs)
}

fn is_unreadable(row: &PgRow) -> bool {
    let negative = row.try_get(0).unwrap_or(true);
    negative || row.try_get(1).map_or(true, |headers| decode_headers(headers).is_err())
}
