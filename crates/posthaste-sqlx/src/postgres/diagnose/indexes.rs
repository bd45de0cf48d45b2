//! Diagnosis of indexes: all of them exist and are valid, and the planner uses the one that every claim needs.

use posthaste::admin::Finding;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::super::PgStore;
use super::super::migrate::INDEXES;
use crate::findings::{missing_index, unused_index};
use crate::sql::Sql;
use crate::store::stats::StatsDialect as _;

/// All indexes of the table: the name, whether it can be used, and its column if it makes a single column unique.
const FOUND: &str = r#"SELECT c.relname::text, i.indisvalid AND i.indisready,
  CASE WHEN i.indisunique AND i.indpred IS NULL AND i.indnkeyatts = 1 THEN a.attname::text ELSE '' END
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
  LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass('"{table}"')"#;

/// The query of a claim, in its order and without its locks, so that every user who may read can explain it.
const CLAIM: &str = r#"EXPLAIN SELECT seq, available_at FROM "{table}"
WHERE status IN (0, 2) AND available_at <= statement_timestamp() AND (available_at, seq) > ('-infinity', 0)
ORDER BY available_at, seq LIMIT 100"#;

/// The unique keys, whose indexes have other names in an adopted table. The statement builds them CONCURRENTLY, because
/// building takes long on a large table and must not block writers.
const KEYS: [(&str, &str, &str); 2] = [
    (
        "seq",
        "{name}_seq_key",
        r#"CREATE UNIQUE INDEX CONCURRENTLY "{name}_seq_key" ON "{table}" (seq), then ALTER TABLE "{table}" ADD CONSTRAINT "{name}_seq_key" UNIQUE USING INDEX "{name}_seq_key""#,
    ),
    (
        "event_id",
        "{name}_id_key",
        r#"CREATE UNIQUE INDEX CONCURRENTLY "{name}_id_key" ON "{table}" (event_id), then ALTER TABLE "{table}" ADD CONSTRAINT "{name}_id_key" UNIQUE USING INDEX "{name}_id_key""#,
    ),
];

pub(super) async fn findings(store: &PgStore) -> Vec<Finding> {
    let seen = store.read(async |connection| read(store.sql(), connection).await);
    seen.await.unwrap_or_default()
}

async fn read(sql: &Sql, connection: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
    let rows = sql.fresh::<Postgres>(FOUND).fetch_all(&mut *connection).await?;
    let found = rows.iter().map(Index::read).collect::<Result<Vec<_>, _>>()?;
    let mut findings = missing(sql, &found);
    if findings.is_empty() {
        findings.extend(unused(sql, connection).await?);
    }
    Ok(findings)
}

struct Index {
    name: String,
    is_usable: bool,
    /// Empty if the index does not make a single column unique.
    key: String,
}

impl Index {
    fn read(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { name: row.try_get(0)?, is_usable: row.try_get(1)?, key: row.try_get(2)? })
    }
}

fn missing(sql: &Sql, found: &[Index]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for statement in
        INDEXES.lines().filter(|line| line.starts_with("CREATE INDEX") && !line.contains("_archive"))
    {
        let statement = sql.text(statement).replacen("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1);
        let name = statement.split('"').nth(1).unwrap_or_default();
        match found.iter().find(|index| index.name == name) {
            None => findings.push(missing_index(name, &statement)),
            Some(index) if !index.is_usable => findings.push(invalid(sql, name)),
            Some(_) => {}
        }
    }
    for (column, name, statement) in KEYS {
        if !found.iter().any(|index| index.is_usable && index.key == column) {
            findings.push(missing_index(&sql.text(name), &sql.text(statement)));
        }
    }
    findings
}

/// An invalid index, as a failed CREATE INDEX CONCURRENTLY leaves behind.
fn invalid(sql: &Sql, name: &str) -> Finding {
    let fix = format!("build it again: REINDEX INDEX CONCURRENTLY {}\"{name}\"", sql.text("\"{schema}\"."));
    unused_index(name, "it is marked as INVALID", &fix)
}

/// The settings are those of the engine: with them the planner must use the index if it can.
async fn unused(sql: &Sql, connection: &mut PgConnection) -> sqlx::Result<Option<Finding>> {
    Postgres::read_in_order(connection).await?;
    let rows = sql.fresh::<Postgres>(CLAIM).fetch_all(connection).await?;
    let plan = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    let name = sql.text("{name}_due");
    let takes = |line: &String| {
        line.split_once(" using ").is_some_and(|(_, index)| index.trim_start_matches('"').starts_with(&*name))
    };
    if plan.iter().any(takes) {
        return Ok(None);
    }
    let scan = plan.iter().find(|line| line.contains(" Scan ")).map_or("", |line| line.as_str());
    let scan = scan.trim_start_matches([' ', '-', '>']).split("  (").next().unwrap_or_default();
    let fix = sql.text(
        "see whether enable_indexscan is off for this user or database; or drop it and create it again as \
         posthaste migrate print shows it, then ANALYZE \"{table}\"",
    );
    Ok(Some(unused_index(&name, &format!("a claim does not use it ({scan})"), &fix)))
}
