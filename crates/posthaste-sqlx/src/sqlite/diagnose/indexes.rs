//! Diagnosis of indexes: all of them exist and match the statements that name them.

use std::collections::HashSet;

use posthaste::admin::Finding;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteConnection};

use super::super::migrate::TABLES;
use crate::findings::{missing_index, unused_index};
use crate::sql::Sql;

const FOUND: &str = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = '{table}'";

/// The queries of claims in their two orders. If the index that they name does not fit, SQLite refuses them, or sorts
/// what the index should have in order.
const CLAIMS: [(&str, &str); 2] = [
    (
        "{table}_due",
        r#"EXPLAIN QUERY PLAN SELECT seq FROM "{table}" INDEXED BY "{table}_due"
WHERE status IN (0, 2) AND available_at <= 0 ORDER BY available_at, seq LIMIT 1"#,
    ),
    (
        "{table}_pending",
        r#"EXPLAIN QUERY PLAN SELECT seq FROM "{table}" INDEXED BY "{table}_pending"
WHERE status IN (0, 2) ORDER BY seq LIMIT 1"#,
    ),
];

pub(super) async fn read(sql: &Sql, connection: &mut SqliteConnection) -> sqlx::Result<Vec<Finding>> {
    let found: HashSet<String> =
        sql.scalar::<Sqlite, String>(FOUND).fetch_all(&mut *connection).await?.into_iter().collect();
    let mut findings = Vec::new();
    for (name, statement) in expected(sql) {
        if !found.contains(&name) {
            findings.push(missing_index(&name, &statement));
        }
    }
    for (name, claim) in CLAIMS {
        let name = sql.text(name);
        if found.contains(&*name) && !fits(sql, connection, claim).await {
            findings.push(misfit(sql, &name));
        }
    }
    Ok(findings)
}

async fn fits(sql: &Sql, connection: &mut SqliteConnection, claim: &'static str) -> bool {
    let plan = sql.query::<Sqlite>(claim).persistent(false).fetch_all(connection).await;
    let sorts = |row: &SqliteRow| row.try_get("detail").is_ok_and(|step: &str| step.contains("TEMP B-TREE"));
    plan.is_ok_and(|plan| !plan.iter().any(sorts))
}

/// The indexes of the table as the migrations create them: names and statements.
fn expected(sql: &Sql) -> impl Iterator<Item = (String, String)> {
    let lines = TABLES.lines().filter(|line| line.starts_with("CREATE INDEX") && !line.contains("_archive"));
    lines.map(|line| {
        let statement = sql.text(line).to_string();
        (statement.split('"').nth(1).unwrap_or_default().to_owned(), statement)
    })
}

fn misfit(sql: &Sql, name: &str) -> Finding {
    let statement = expected(sql).find(|(expected, _)| expected == name).map(|(_, statement)| statement);
    let fix = format!("DROP INDEX \"{name}\"; {}", statement.unwrap_or_default());
    unused_index(name, "it differs from the one that the migrations create", &fix)
}
