//! Rule: only a few files build SQL at run time, so that a reviewer can read all of them.

use super::tree::Tree;
use super::{Violation, has_word, judge_lines};

const DYNAMIC_SQL_TYPE: &str = "AssertSqlSafe";

/// The SQL module of the stores, the tests of query plans, and the benchmarks, whose tables and databases have random
/// names.
const ALLOWED_FILES: &[&str] = &[
    "crates/posthaste-sqlx/src/sql.rs",
    "crates/posthaste-sqlx/src/mysql/plan_tests.rs",
    "crates/posthaste-sqlx/src/postgres/plan_tests.rs",
    "crates/posthaste-sqlx/src/sqlite/plan_tests.rs",
    "bench/src/mysql/statements.rs",
    "bench/src/postgres/statements.rs",
    "bench/src/sqlite.rs",
    "bench/peers/src/database.rs",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let files = tree.rust_files_but_the_rules();
    let files = files.filter(|(path, _)| path.contains("/src/") && !ALLOWED_FILES.contains(path));
    let advice =
        format!("`{DYNAMIC_SQL_TYPE}` is allowed in few files: move the statement to {}", ALLOWED_FILES[0]);
    judge_lines(files, |line| has_word(line, DYNAMIC_SQL_TYPE).then(|| advice.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_sql_is_reported_outside_the_allowed_files() {
        let text = "fn f() { sqlx::query(AssertSqlSafe(name)); }";
        let tree =
            Tree::of(&[("crates/x/src/a.rs", text), (ALLOWED_FILES[0], text), ("crates/x/tests/t.rs", text)]);
        let paths: Vec<String> = check(&tree).into_iter().map(|violation| violation.path).collect();
        assert_eq!(paths, ["crates/x/src/a.rs"]);
    }
}
