//! Rule: tests do not wait for real time.
//!
//! A thread never sleeps. A task sleeps only if Tokio's clock is paused: in the same file, or, for a module of a test
//! program, in every test that uses it.

use super::tree::Tree;
use super::{Violation, has_word, numbered};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let check_file = |(path, text)| check_file(path, text, is_paused(text) || users_are_paused(tree, path));
    tree.rust_files_but_the_rules().flat_map(check_file).collect()
}

fn is_paused(text: &str) -> bool {
    text.contains("start_paused") || text.contains("pause()")
}

/// Whether this file is in a folder below `tests/` and every user of the folder pauses time. The users are its
/// `main.rs`, the tests that declare it as a module, and the other modules that import it.
fn users_are_paused(tree: &Tree, path: &str) -> bool {
    let Some((tests, inner)) = path.rsplit_once("tests/") else { return false };
    let Some((folders, _)) = inner.rsplit_once('/') else { return false };
    let folder = folders.rsplit('/').next().unwrap_or(folders);
    let main = format!("{tests}tests/{folders}/main.rs");
    let (declared, imported) = (format!("mod {folder};"), format!("use crate::{folder}"));
    let mut users = tree.rust_files_but_the_rules().filter(|(user, text)| {
        let Some(name) = user.strip_prefix(&format!("{tests}tests/")) else { return false };
        *user == main || text.contains(&imported) || (!name.contains('/') && text.contains(&declared))
    });
    let mut any = false;
    users.all(|(_, text)| {
        any = true;
        is_paused(text)
    }) && any
}

fn check_file(path: &str, text: &str, is_paused: bool) -> Vec<Violation> {
    let report = |(line_no, line): (usize, &str)| {
        advice(line, is_paused).map(|advice| Violation::new(path, line_no, advice))
    };
    test_lines(path, text).filter_map(report).collect()
}

/// The lines of tests: all lines of a test file, and otherwise those after `mod tests {`.
fn test_lines<'a>(path: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let whole = path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
    numbered(text).skip_while(move |(_, line)| !whole && !line.starts_with("mod tests {"))
}

fn advice(line: &str, is_paused: bool) -> Option<&'static str> {
    let of_thread = line.contains("thread::") && has_word(line, "sleep");
    let of_tokio = line.contains("time::")
        && ["sleep", "sleep_until", "advance"].iter().any(|name| has_word(line, name));
    if of_thread {
        Some("a test must not let a thread sleep: wait for a signal, or pause Tokio's time")
    } else if of_tokio && !is_paused {
        Some("this waits for real time: pause it, `#[tokio::test(start_paused = true)]`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = check(&Tree::of(&[(path, text)]));
        found.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn thread_never_sleeps_in_a_test() {
        let paused = "#[tokio::test(start_paused = true)]\nstd::thread::sleep(long);\n";
        assert_eq!(lines("crates/a/tests/b.rs", paused), [2]);
        assert_eq!(lines("tests/b.rs", "use std::thread::{self, sleep};\n"), [1]);
    }

    #[test]
    fn task_sleeps_only_on_paused_time() {
        for call in [
            "tokio::time::sleep(long).await;",
            "time::sleep_until(then).await;",
            "use tokio::time::{Instant, sleep};",
            "tokio::time::advance(long).await;",
        ] {
            assert_eq!(lines("crates/a/tests/b.rs", call), [1], "{call}");
            let paused = format!("{call}\ntokio::time::pause();\n");
            assert!(lines("crates/a/tests/b.rs", &paused).is_empty(), "{call}");
        }
    }

    #[test]
    fn module_of_tests_sleeps_only_if_all_its_users_pause_time() {
        let (module, sleep) = ("crates/a/tests/support/mod.rs", "tokio::time::sleep(long).await;\n");
        let found = |users: &[(&str, &str)]| {
            let files: Vec<_> = users.iter().copied().chain([(module, sleep)]).collect();
            check(&Tree::of(&files)).len()
        };
        let (paused, real) = ("mod support;\nstart_paused\n", "mod support;\n");
        assert_eq!(found(&[("crates/a/tests/b.rs", paused)]), 0);
        assert_eq!(found(&[("crates/a/tests/b.rs", paused), ("crates/a/tests/c.rs", real)]), 1);
        assert_eq!(found(&[]), 1);
        assert_eq!(found(&[("crates/a/tests/support/main.rs", "start_paused")]), 0);
    }

    #[test]
    fn module_of_a_test_program_sleeps_only_if_all_its_importers_pause_time() {
        let (main, module) = ("crates/a/tests/all/main.rs", "crates/a/tests/all/support/mod.rs");
        let found = |users: &[(&str, &str)]| {
            let program = [(main, "mod b;\nmod support;\n"), (module, "tokio::time::sleep(long).await;\n")];
            check(&Tree::of(&[users, &program].concat())).len()
        };
        let paused = ("crates/a/tests/all/b.rs", "use crate::support::*;\nstart_paused\n");
        assert_eq!(found(&[paused]), 0);
        assert_eq!(found(&[paused, ("crates/a/tests/all/c.rs", "use crate::support::Db;\n")]), 1);
        assert_eq!(found(&[paused, ("crates/a/tests/d.rs", "mod support;\n")]), 1);
        assert_eq!(found(&[]), 1);
    }

    #[test]
    fn code_may_sleep_and_its_unit_tests_may_not() {
        let code = "tokio::time::sleep(delay).await;\n";
        assert!(lines("crates/a/src/b.rs", code).is_empty());
        let both = format!("{code}\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(lines("crates/a/src/b.rs", &both), [5]);
        assert_eq!(lines("crates/a/src/b/tests.rs", code), [1]);
    }
}
