//! Hostile files: binary data, deep nesting, huge tables.

use super::*;

#[test]
fn hostile_files_are_refused_within_bounded_time() {
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    for text in [
        "\0\x01\x02".to_owned(),
        "=".repeat(1_000_000),
        format!("a = {}", deep(100_000)),
        format!("{}= 1", "a.".repeat(100_000)),
        format!("a = {}", "{b=".repeat(10_000)),
        format!("[{}]", vec!["a"; 50_000].join(".")),
        "x = 1\n".repeat(100_000),
        (0..50_000).map(|n| format!("k{n} = \"x\"\n")).collect(),
        format!("[outbox.a]\n{}", (0..5_000).map(|n| format!("k{n} = 1\n")).collect::<String>()),
        (0..30_000).map(|n| format!("[outbox.o{n}]\n")).collect(),
        (0..20_000).map(|_| "[[outbox.a.route]]\npublish='x'\n").collect(),
        format!("[outbox.a]\nstore = \"{}\"", "${".repeat(100_000)),
        " ".repeat(2 * 1024 * 1024),
    ] {
        let began = std::time::Instant::now();
        let problems = read(&text, []).expect_err("refused");
        assert!(problems.to_string().len() < 100_000);
        assert!(began.elapsed() < Duration::from_secs(20), "{:.40} took {:?}", text, began.elapsed());
    }
}

#[test]
fn file_that_is_not_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    let reported = || Source::File(path.clone()).load_with(&Environment::default()).unwrap_err().to_string();
    assert!(reported().contains("does not exist"), "{}", reported());
    std::fs::write(&path, b"a = 1\n\xff\xfe").unwrap();
    assert!(reported().contains("is not UTF-8 text in line 2"), "{}", reported());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(reported().contains("cannot be read"), "{}", reported());
}
