//! What the catalogue of PostgreSQL says about a foreign table.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::foreign::catalogue::{Catalogue, Column};

const COLUMNS: &str = "SELECT a.attname::text,
  CASE WHEN y.typtype = 'e' THEN 'enum(' || (
      SELECT string_agg(quote_literal(e.enumlabel), ',') FROM pg_enum AS e WHERE e.enumtypid = y.oid) || ')'
    ELSE format_type(a.atttypid, NULL) END,
  CASE WHEN y.typname IN ('varchar', 'bpchar') AND a.atttypmod > 4 THEN (a.atttypmod - 4)::int8 END, NOT a.attnotnull
FROM pg_attribute AS a JOIN pg_type AS y ON y.oid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped";

/// Indexes of some rows only, or of expressions, do not tell all rows apart by their columns.
const UNIQUE: &str = "SELECT ARRAY(SELECT a.attname::text FROM pg_attribute AS a
  WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
FROM pg_index AS i WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL";

/// A view, or a table on another server, has no indexes.
const HAS_INDEXES: &str = "SELECT relkind IN ('r', 'p') FROM pg_class WHERE oid = to_regclass($1)";

/// What the catalogue says of a table; none if there is none.
pub(super) async fn look_up(
    connection: &mut PgConnection,
    table: &str,
) -> Result<Option<Catalogue>, sqlx::Error> {
    let columns = sqlx::query(COLUMNS).bind(table).fetch_all(&mut *connection).await?;
    let columns = columns.iter().map(column_of).collect::<Result<Vec<_>, _>>()?;
    if columns.is_empty() {
        return Ok(None);
    }
    let has_indexes: bool = sqlx::query_scalar(HAS_INDEXES).bind(table).fetch_one(&mut *connection).await?;
    let unique = sqlx::query_scalar(UNIQUE).bind(table).fetch_all(connection).await?;
    Ok(Some(Catalogue { columns, unique: has_indexes.then_some(unique) }))
}

fn column_of(row: &PgRow) -> Result<Column, sqlx::Error> {
    let chars: Option<i64> = row.try_get(2)?;
    let chars = chars.and_then(|chars| usize::try_from(chars).ok());
    Ok(Column { name: row.try_get(0)?, kind: row.try_get(1)?, chars, nullable: row.try_get(3)? })
}
