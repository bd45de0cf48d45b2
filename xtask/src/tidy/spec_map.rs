//! Rule: `docs/internal/spec-map.md` names tests for every requirement, or a reason why there is none.

use std::collections::BTreeMap;

use super::spec_ids::{self, is_id};
use super::tree::Tree;
use super::{Violation, numbered};

const MAP_FILE: &str = "docs/internal/spec-map.md";
const REASON_OPENINGS: &[&str] = &["not applicable, because ", "later: "];
const MIN_REASON_CHARS: usize = 15;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(map) = tree.text(MAP_FILE) else {
        let advice = "this file is missing: it names the tests of each requirement";
        return vec![Violation::new(MAP_FILE, 1, advice)];
    };
    let ids = tree.text(spec_ids::IDS_FILE).unwrap_or_default();
    let rows = rows(map);
    let mut violations = faults_of_ids(ids, &rows);
    for row in &rows {
        let faults = faults_of_proof(tree, row.proof);
        violations.extend(
            faults
                .into_iter()
                .map(|fault| Violation::new(MAP_FILE, row.line_no, format!("{}: {fault}", row.id))),
        );
    }
    violations
}

/// `| S3-41 | proof |`
struct Row<'a> {
    line_no: usize,
    id: &'a str,
    proof: &'a str,
}

/// The rows of all tables, without their heads.
fn rows(map: &str) -> Vec<Row<'_>> {
    let lines: BTreeMap<usize, Vec<&str>> =
        numbered(map).filter_map(|(line_no, line)| Some((line_no, cells(line)?))).collect();
    let is_rule = |line_no: usize| lines.get(&line_no).is_some_and(|cells| is_rule(cells[0]));
    lines
        .iter()
        .filter(|(line_no, _)| !is_rule(**line_no) && !is_rule(**line_no + 1))
        .map(|(line_no, cells)| Row {
            line_no: *line_no,
            id: cells[0],
            proof: cells.get(1).copied().unwrap_or_default(),
        })
        .collect()
}

fn is_rule(cell: &str) -> bool {
    cell.contains('-') && cell.trim_matches([':', '-']).is_empty()
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.trim().strip_prefix('|')?;
    let row = row.strip_suffix('|').unwrap_or(row);
    Some(row.split('|').map(str::trim).collect())
}

/// The violations of: each id has exactly one row, and each row has one id.
fn faults_of_ids(ids: &str, rows: &[Row<'_>]) -> Vec<Violation> {
    let mut first_rows: BTreeMap<&str, Option<usize>> = ids.lines().map(|id| (id, None)).collect();
    let mut violations = Vec::new();
    for row in rows {
        let advice = match first_rows.get_mut(row.id) {
            Some(first @ None) => {
                *first = Some(row.line_no);
                continue;
            }
            Some(Some(first)) => format!("{} is already on line {first}: merge the rows", row.id),
            None if is_id(row.id) => format!("{} is not in {}: correct it", row.id, spec_ids::IDS_FILE),
            None => format!("`{}` is not an id: a row starts with exactly one id", row.id),
        };
        violations.push(Violation::new(MAP_FILE, row.line_no, advice));
    }
    let missing = ids.lines().filter(|id| first_rows[id].is_none());
    violations.extend(missing.map(|id| Violation::new(MAP_FILE, 1, format!("{id} has no row: add it"))));
    violations
}

fn faults_of_proof(tree: &Tree, proof: &str) -> Vec<String> {
    if let Some(reason) = REASON_OPENINGS.iter().find_map(|opening| proof.strip_prefix(opening)) {
        if reason.chars().count() >= MIN_REASON_CHARS {
            return Vec::new();
        }
        return vec![format!("give a reason of at least {MIN_REASON_CHARS} characters")];
    }
    // Every second part is between backticks.
    let tests: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
    if tests.is_empty() {
        let openings = REASON_OPENINGS.join("` or `");
        return vec![format!("name tests as `path/to/file.rs::test_name`, or start with `{openings}`")];
    }
    tests.into_iter().filter_map(|test| fault_of_test(tree, test)).collect()
}

fn fault_of_test(tree: &Tree, test: &str) -> Option<String> {
    let Some((stem, name)) = test.split_once(".rs::") else {
        return Some(format!("`{test}` does not have the form `path/to/file.rs::test_name`"));
    };
    let path = format!("{stem}.rs");
    let Some(text) = tree.text(&path) else {
        return Some(format!("there is no file {path}"));
    };
    let name = name.rsplit("::").next().unwrap_or(name);
    if has_function(text, name) { None } else { Some(format!("{path} has no `fn {name}`")) }
}

fn has_function(text: &str, name: &str) -> bool {
    let opening = format!("fn {name}");
    text.match_indices(&opening).any(|(start, _)| text[start + opening.len()..].starts_with(['(', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP_HEAD: &str = "# Map\n\n| id | proof |\n|---|---|\n";

    /// The violations of a map with these rows, which start on line 5, and the ids S3-01 and T1.
    fn found(rows: &str) -> Vec<String> {
        let map = format!("{MAP_HEAD}{rows}");
        let tree = Tree::of(&[
            (spec_ids::IDS_FILE, "S3-01\nT1\n"),
            (MAP_FILE, &map),
            ("crates/a/tests/b.rs", "#[test]\nfn it_holds() {}\nfn generic<T>() {}\n"),
        ]);
        check(&tree).iter().map(|found| format!("{}: {}", found.line, found.advice)).collect()
    }

    const FIRST_ROW: &str = "| S3-01 | `crates/a/tests/b.rs::it_holds` |\n";

    #[test]
    fn test_or_reason_is_enough() {
        let rows = "| T1 | `crates/a/tests/b.rs::it_holds`, `crates/a/tests/b.rs::m::generic` |\n";
        assert_eq!(found(&format!("{FIRST_ROW}{rows}")), [""; 0]);
        for reason in ["later: with the stores on real servers", "not applicable, because Rust has no null"] {
            assert_eq!(found(&format!("{FIRST_ROW}| T1 | {reason} |\n")), [""; 0]);
        }
        assert_eq!(
            found(&format!(
                "{FIRST_ROW}\n## Tests\n\n| requirement | proof |\n|:--|--:|\n| T1 | `crates/a/tests/b.rs::it_holds` | note |"
            )),
            [""; 0],
            "a table per document"
        );
    }

    #[test]
    fn id_without_a_row_is_reported() {
        assert_eq!(found(FIRST_ROW), ["1: T1 has no row: add it"]);
    }

    #[test]
    fn id_with_two_rows_is_reported() {
        let found = found(&format!("{FIRST_ROW}{FIRST_ROW}| T1 | later: with the dashboard |\n"));
        assert_eq!(found, ["6: S3-01 is already on line 5: merge the rows"]);
    }

    #[test]
    fn row_of_an_unknown_id_is_reported() {
        let other = "| T1 | later: with the dashboard |\n";
        for (id, advice) in [
            ("S3-02", "7: S3-02 is not in docs/internal/spec-ids.txt: correct it"),
            ("S3-01, T1", "7: `S3-01, T1` is not an id: a row starts with exactly one id"),
        ] {
            let row = format!("| {id} | later: with the dashboard |\n");
            assert_eq!(found(&format!("{FIRST_ROW}{other}{row}")), [advice]);
        }
    }

    #[test]
    fn row_without_tests_or_a_reason_is_reported() {
        for (proof, advice) in [
            (
                "",
                "name tests as `path/to/file.rs::test_name`, \
                 or start with `not applicable, because ` or `later: `",
            ),
            (
                "it works",
                "name tests as `path/to/file.rs::test_name`, \
                 or start with `not applicable, because ` or `later: `",
            ),
            ("later: soon", "give a reason of at least 15 characters"),
            ("`it_holds`", "`it_holds` does not have the form `path/to/file.rs::test_name`"),
            ("`crates/a/tests/c.rs::it_holds`", "there is no file crates/a/tests/c.rs"),
            ("`crates/a/tests/b.rs::it_hold`", "crates/a/tests/b.rs has no `fn it_hold`"),
        ] {
            let row = format!("| T1 | {proof} |\n");
            assert_eq!(found(&format!("{FIRST_ROW}{row}")), [format!("6: T1: {advice}")]);
        }
    }

    #[test]
    fn missing_map_is_reported() {
        let found = check(&Tree::of(&[(spec_ids::IDS_FILE, "T1\n")]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, MAP_FILE);
    }
}
