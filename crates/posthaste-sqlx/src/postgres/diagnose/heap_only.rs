//! Diagnosis of claims: they are heap-only updates, which write no index entry.

use posthaste::admin::Finding;
use sqlx::{PgConnection, Postgres, Row as _};

use crate::sql::Sql;

/// The largest fillfactor at which the new versions of all rows of a page fit on it.
const MAX_FILLFACTOR: i64 = 50;

/// The fillfactor, and an index that contains a column which every claim changes.
const TABLE: &str = r#"SELECT
  coalesce((SELECT option_value::int8 FROM pg_options_to_table(c.reloptions) WHERE option_name = 'fillfactor'), 100),
  (SELECT i.indexrelid::regclass::text FROM pg_index AS i
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = c.oid AND a.attname IN ('locked_by', 'locked_at', 'lease_until', 'lease_token', 'lost_leases')
    LIMIT 1)
FROM pg_class AS c WHERE c.oid = to_regclass('"{table}"')"#;

pub(super) async fn findings(sql: &Sql, connection: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
    let Some(row) = sql.fresh::<Postgres>(TABLE).fetch_optional(connection).await? else {
        return Ok(Vec::new());
    };
    let (fillfactor, index): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let finding = |why: String, advice: String| {
        Finding::warning(
            "expensive-claims",
            format!("every claim writes index entries, because {why}"),
            advice,
        )
    };
    let mut findings = Vec::new();
    if fillfactor > MAX_FILLFACTOR {
        findings.push(finding(
            format!(
                "the fillfactor of the table is {fillfactor}, which leaves no room for a second version of its rows"
            ),
            sql.text(r#"ALTER TABLE "{table}" SET (fillfactor = 45)"#).to_string(),
        ));
    }
    if let Some(index) = index {
        findings.push(finding(
            format!("the index {index} contains a column that every claim changes"),
            format!("drop the index, or create it without that column: DROP INDEX {index}"),
        ));
    }
    Ok(findings)
}
