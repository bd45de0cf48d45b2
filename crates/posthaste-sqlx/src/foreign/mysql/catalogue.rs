//! What the catalogue of MySQL and MariaDB says about a foreign table.

use std::collections::HashMap;

use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, Row as _};

use crate::foreign::catalogue::{Catalogue, Column};

const COLUMNS: &str = "SELECT CONVERT(column_name USING utf8mb4),
  CONVERT(IF(column_type = 'binary(16)' OR data_type = 'enum', column_type, data_type) USING utf8mb4),
  CAST(character_maximum_length AS SIGNED), CAST(is_nullable = 'YES' AS SIGNED)
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?";

/// The columns of unique indexes; a part of one that is an expression has no column.
const UNIQUE: &str = "SELECT CONVERT(index_name USING utf8mb4), CONVERT(column_name USING utf8mb4)
FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? AND non_unique = 0";

/// A view has no indexes.
const HAS_INDEXES: &str = "SELECT COUNT(*) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = ? AND table_type = 'BASE TABLE'";

/// What the catalogue says of a table; none if there is none.
pub(super) async fn look_up(
    connection: &mut MySqlConnection,
    table: &str,
) -> Result<Option<Catalogue>, sqlx::Error> {
    let columns = sqlx::query(COLUMNS).bind(table).fetch_all(&mut *connection).await?;
    let columns = columns.iter().map(column_of).collect::<Result<Vec<_>, _>>()?;
    if columns.is_empty() {
        return Ok(None);
    }
    let has_indexes: i64 = sqlx::query_scalar(HAS_INDEXES).bind(table).fetch_one(&mut *connection).await?;
    let mut unique: HashMap<String, Vec<String>> = HashMap::new();
    for row in sqlx::query(UNIQUE).bind(table).fetch_all(connection).await? {
        let (index, column): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        unique.entry(index).or_default().push(column.unwrap_or_default());
    }
    let unique = (has_indexes > 0).then(|| unique.into_values().collect());
    Ok(Some(Catalogue { columns, unique }))
}

fn column_of(row: &MySqlRow) -> Result<Column, sqlx::Error> {
    let chars: Option<i64> = row.try_get(2)?;
    let chars = chars.and_then(|chars| usize::try_from(chars).ok());
    let nullable: i64 = row.try_get(3)?;
    Ok(Column { name: row.try_get(0)?, kind: row.try_get(1)?, chars, nullable: nullable != 0 })
}
