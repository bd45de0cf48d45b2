//! `posthaste bench`: every figure is there, and nothing is left behind.

use posthaste_testkit::variable;
use serde_json::Value;
use sqlx::Connection as _;
use tokio::sync::Mutex;

use crate::binary::{json_of, posthaste, text};

/// Benchmarks on one server come one after the other: what one makes would be taken for what another left behind.
static POSTGRES_LOCK: Mutex<()> = Mutex::const_new(());
static MYSQL_LOCK: Mutex<()> = Mutex::const_new(());
static REDIS_LOCK: Mutex<()> = Mutex::const_new(());

const RATES: [&str; 10] = [
    "business_tx_per_s",
    "outbox_tx_per_s",
    "writer_only_tx_per_s",
    "hand_written_tx_per_s",
    "few_together_events_per_s",
    "few_singly_events_per_s",
    "live_single_events_per_s",
    "live_batch_events_per_s",
    "backlog_events_per_s",
    "write_and_drain_events_per_s",
];

fn bench(store: &str, more: &[&str]) -> Value {
    let args = [
        "bench",
        "--store",
        store,
        "--events",
        "50",
        "--writers",
        "2",
        "--workers",
        "2",
        "--rounds",
        "2",
        "--done-rows",
        "1100",
        "--future-rows",
        "100",
        "--steady",
        "5",
    ];
    json_of(&[&args, more].concat())
}

fn assert_ratio(ratio: &Value, name: &str) {
    let of = |of: &str| ratio[of].as_f64().unwrap_or_default();
    assert!(0.0 < of("lowest") && of("lowest") <= of("median"), "{name}: {ratio}");
    assert!(of("median") <= of("highest"), "{name}: {ratio}");
}

fn assert_complete(report: &Value) {
    for name in RATES {
        assert!(report[name].as_f64() > Some(0.0), "{name} in {report}");
    }
    for name in [
        "outbox_to_business",
        "writer_only_to_business",
        "outbox_to_hand_written",
        "few_together_to_singly",
        "live_single_to_business",
    ] {
        assert_ratio(&report[name], name);
    }
    assert!(report["live_single_lag_events"].as_u64() <= Some(50), "{report}");
    for name in ["kept", "deleted"] {
        assert!(report["settle_rows_per_s"][name].as_f64() > Some(0.0), "{name} in {report}");
    }
    for end in ["kept", "deleted"] {
        let rates = &report["claim_and_settle_events_per_s"][end];
        for size in ["one", "hundred", "thousand"] {
            assert!(rates[size].as_f64() > Some(0.0), "{end} {size} in {report}");
        }
        assert_ratio(&rates["hundred_to_one"], end);
    }
    for name in ["live_single", "live_batch", "backlog"] {
        assert!(report["settle_batch_mean"][name].as_f64() >= Some(1.0), "{name} in {report}");
    }
    assert_eq!(report["latency_us"]["count"], 50);
    assert!(report.get("peak_memory_bytes").is_some(), "{report}");
    for name in ["claim_p50_many_to_few", "settle_p50_many_to_few"] {
        assert!(report["flatness"][name].as_f64() > Some(0.0), "{name} in {report}");
    }
    let many = &report["flatness"]["many"];
    assert_eq!(many["future_rows"], 100, "{report}");
    for name in ["claim_us", "settle_us"] {
        assert!(many[name]["p50"].as_u64().is_some(), "{name} in {report}");
    }
    let steady = &report["steady"];
    assert!(steady["events"].as_u64() > Some(0), "{report}");
    assert!(steady["last_claim_us"]["p99"].as_u64().is_some(), "{report}");
}

#[test]
fn memory_store_gives_every_figure() {
    assert_complete(&bench("memory:", &[]));
}

#[test]
fn sqlite_gives_every_figure_and_the_new_file_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bench.db");
    assert_complete(&bench(&format!("sqlite:{}", file.display()), &[]));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[tokio::test]
async fn sqlite_file_of_somebody_else_keeps_its_own_tables_alone() -> Result<(), sqlx::Error> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("service.db");
    let url = format!("sqlite:{}?mode=rwc", file.display());
    let pool = sqlx::SqlitePool::connect(&url).await?;
    sqlx::query("CREATE TABLE posthaste_bench (mine TEXT)").execute(&pool).await?;
    assert_complete(&bench(&format!("sqlite:{}", file.display()), &[]));
    let tables = "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&pool).await?;
    assert_eq!(tables, ["posthaste_bench"]);
    Ok(())
}

/// Schemas of benchmarks that this database has.
async fn bench_schemas(url: &str) -> Result<Vec<String>, sqlx::Error> {
    let mut connection = sqlx::PgConnection::connect(url).await?;
    let schemas = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'posthaste_bench%' ORDER BY 1";
    sqlx::query_scalar(schemas).fetch_all(&mut connection).await
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn postgres_gives_every_figure_and_its_schema_is_dropped() -> Result<(), sqlx::Error> {
    let _alone = POSTGRES_LOCK.lock().await;
    let url = variable("POSTHASTE_TEST_POSTGRES_URL");
    let before = bench_schemas(&url).await?;
    let report = bench(&url, &["--snapshot-rows", "200"]);
    assert_complete(&report);
    let by_hand = &report["by_hand"];
    for name in [
        "proved_to_hand_written",
        "outbox_to_proved",
        "backlog_to_drain",
        "backlog_to_one_by_one",
        "notify_to_without_notify",
    ] {
        assert_ratio(&by_hand[name], name);
    }
    assert_ratio(&report["settle_rows_per_s"]["kept_to_one_by_one"], "kept_to_one_by_one");
    assert!(report["between_processes_us"]["p50"].as_u64().is_some(), "{report}");
    for name in ["without", "with", "with_last_fifth"] {
        assert!(report["snapshot"][name]["p50"].as_u64().is_some(), "{name} in {report}");
    }
    assert_eq!(bench_schemas(&url).await?, before);
    Ok(())
}

/// Tables of benchmarks that this database has.
async fn bench_tables(url: &str) -> Result<Vec<String>, sqlx::Error> {
    let mut connection = sqlx::MySqlConnection::connect(url).await?;
    let tables = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables
       WHERE table_schema = DATABASE() AND table_name LIKE 'posthaste_bench%' ORDER BY 1";
    sqlx::query_scalar(tables).fetch_all(&mut connection).await
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn mysql_gives_every_figure_and_its_tables_are_dropped() -> Result<(), sqlx::Error> {
    let _alone = MYSQL_LOCK.lock().await;
    let url = variable("POSTHASTE_TEST_MYSQL_URL");
    let before = bench_tables(&url).await?;
    let report = bench(&url, &["--snapshot-rows", "200"]);
    assert_complete(&report);
    let by_hand = &report["by_hand"];
    for name in ["proved_to_hand_written", "outbox_to_proved", "backlog_to_drain", "backlog_to_one_by_one"] {
        assert_ratio(&by_hand[name], name);
    }
    assert!(by_hand["notify_to_without_notify"].is_null(), "{report}");
    assert_ratio(&report["settle_rows_per_s"]["kept_to_one_by_one"], "kept_to_one_by_one");
    assert!(report["between_processes_us"]["p50"].as_u64().is_some(), "{report}");
    for name in ["without", "with", "with_last_fifth"] {
        assert!(report["snapshot"][name]["p50"].as_u64().is_some(), "{name} in {report}");
    }
    assert_eq!(bench_tables(&url).await?, before);
    Ok(())
}

/// Keys of benchmarks that this server has.
fn bench_keys(url: &str) -> redis::RedisResult<Vec<String>> {
    let mut connection = redis::Client::open(url)?.get_connection()?;
    redis::cmd("KEYS").arg("*posthaste_bench*").query(&mut connection)
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn redis_gives_every_figure_and_its_keys_are_removed() -> redis::RedisResult<()> {
    let _alone = REDIS_LOCK.blocking_lock();
    let url = variable("POSTHASTE_TEST_REDIS_URL");
    let before = bench_keys(&url)?;
    let report = bench(&url, &["--snapshot-rows", "200"]);
    assert_complete(&report);
    for name in ["backlog_to_drain", "backlog_to_one_by_one"] {
        assert_ratio(&report["by_hand"][name], name);
    }
    assert!(report["by_hand"]["proved_tx_per_s"].is_null(), "{report}");
    assert_ratio(&report["settle_rows_per_s"]["kept_to_one_by_one"], "kept_to_one_by_one");
    assert!(report["between_processes_us"]["p50"].as_u64().is_some(), "{report}");
    assert!(report["snapshot"].is_null(), "{report}");
    assert_eq!(bench_keys(&url)?, before);
    Ok(())
}

fn publish(store: &str, to: &str) -> Value {
    json_of(&["bench", "--store", store, "--publish", to, "--events", "300", "--rounds", "2"])
}

fn assert_published(report: &Value) {
    for name in ["bare_events_per_s", "nothing_events_per_s", "relay_events_per_s"] {
        assert!(report[name].as_f64() > Some(0.0), "{name} in {report}");
    }
    for name in ["relay_to_bare", "relay_to_one_after_the_other"] {
        assert_ratio(&report[name], name);
    }
}

#[test]
fn publishing_to_a_file_gives_every_figure_and_every_event() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("events.jsonl");
    assert_published(&publish("memory:", &format!("file://{}", file.display())));
    let lines = std::fs::read_to_string(file).expect("a file").lines().count();
    assert_eq!(lines, 2 * 2 * 300, "two rounds, by the library alone and by the relay");
}

#[test]
#[ignore = "needs PostgreSQL and Redis: cargo xtask test"]
fn publishing_from_postgres_to_redis_gives_every_figure() -> redis::RedisResult<()> {
    let _alone = POSTGRES_LOCK.blocking_lock();
    let (store, redis) = (variable("POSTHASTE_TEST_POSTGRES_URL"), variable("POSTHASTE_TEST_REDIS_URL"));
    let stream = format!("bench:{}", std::process::id());
    let to = redis.replacen("redis://", "redis-stream://", 1) + "0?stream=" + &stream;
    assert_published(&publish(&store, &to));
    let mut connection = redis::Client::open(redis)?.get_connection()?;
    let entries: u64 = redis::cmd("XLEN").arg(&stream).query(&mut connection)?;
    redis::cmd("DEL").arg(&stream).exec(&mut connection)?;
    assert_eq!(entries, 2 * 2 * 300);
    Ok(())
}

#[test]
fn publishing_to_nobody_ends_with_the_reason_and_without_secrets() {
    for (to, reason) in [
        ("amqp://me:s3ntinel-PW-9f@127.0.0.1:1/%2f?routing_key=q", "refused"),
        ("redis-stream://:s3ntinel-PW-9f@127.0.0.1:1/0?stream=s", "refused"),
        ("kafak://me:s3ntinel-PW-9f@127.0.0.1:1/t", "the benchmark knows no such publisher"),
        ("kafka://me:s3ntinel-PW-9f@[/t", "the URL after --publish cannot be read"),
        ("stdout:", "write file:///path"),
    ] {
        let output = posthaste(&["bench", "--store", "memory:", "--publish", to, "--events", "5"]).output();
        let output = output.expect("the binary runs");
        let printed = text(&output);
        assert!(!output.status.success(), "{to}: {printed}");
        assert!(printed.contains(reason), "{to}: {printed}");
        assert!(!printed.contains("s3ntinel"), "{printed}");
    }
}

fn assert_layouts_measured(store: &str) {
    for preset in ["order-service", "outbox-record", "debezium"] {
        let args = ["bench", "--store", store, "--layout", preset, "--events", "2100", "--rounds", "2"];
        let report = json_of(&args);
        assert_eq!(report["layout"], preset, "{report}");
        for name in ["own_events_per_s", "layout_events_per_s"] {
            assert!(report[name].as_f64() > Some(0.0), "{name} in {report}");
        }
        assert_ratio(&report["layout_to_own"], "layout_to_own");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn layouts_on_postgres_give_every_figure_and_their_schema_is_dropped() -> Result<(), sqlx::Error> {
    let _alone = POSTGRES_LOCK.lock().await;
    let url = variable("POSTHASTE_TEST_POSTGRES_URL");
    let before = bench_schemas(&url).await?;
    assert_layouts_measured(&url);
    assert_eq!(bench_schemas(&url).await?, before);
    Ok(())
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn layouts_on_mysql_give_every_figure_and_their_tables_are_dropped() -> Result<(), sqlx::Error> {
    let _alone = MYSQL_LOCK.lock().await;
    let url = variable("POSTHASTE_TEST_MYSQL_URL");
    let before = bench_tables(&url).await?;
    assert_layouts_measured(&url);
    assert_eq!(bench_tables(&url).await?, before);
    Ok(())
}

#[test]
fn layout_cannot_be_measured_where_there_are_none() {
    let args = ["bench", "--store", "memory:", "--layout", "debezium", "--events", "10"];
    let output = posthaste(&args).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("layouts are for PostgreSQL, MySQL and MariaDB"), "{}", text(&output));
}

fn relay(store: &str) -> Value {
    json_of(&["bench", "--store", store, "--relay", "--events", "50", "--rounds", "2", "--idle", "1"])
}

fn assert_relayed(report: &Value) {
    for name in ["library_events_per_s", "relay_events_per_s", "binary_bytes"] {
        assert!(report[name].as_f64() > Some(0.0), "{name} in {report}");
    }
    for name in ["start_to_first_delivery_ms", "relay_to_library"] {
        assert_ratio(&report[name], name);
    }
    assert_eq!(report["idle"]["seconds"], 1, "{report}");
    if cfg!(target_os = "linux") {
        assert_ratio(&report["idle"]["memory_bytes"], "memory_bytes");
        let percent = report["idle"]["cpu_percent"]["highest"].as_f64();
        assert!(percent.is_some_and(|percent| percent < 100.0), "it is idle: {report}");
    }
}

#[test]
fn relay_on_sqlite_gives_every_figure_and_the_new_file_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bench.db");
    assert_relayed(&relay(&format!("sqlite:{}", file.display())));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn relay_on_postgres_gives_every_figure_and_its_schema_is_dropped() -> Result<(), sqlx::Error> {
    let _alone = POSTGRES_LOCK.lock().await;
    let url = variable("POSTHASTE_TEST_POSTGRES_URL");
    let before = bench_schemas(&url).await?;
    assert_relayed(&relay(&url));
    assert_eq!(bench_schemas(&url).await?, before);
    Ok(())
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn relay_on_mysql_gives_every_figure() {
    let _alone = MYSQL_LOCK.blocking_lock();
    assert_relayed(&relay(&variable("POSTHASTE_TEST_MYSQL_URL")));
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn relay_on_redis_gives_every_figure() {
    let _alone = REDIS_LOCK.blocking_lock();
    assert_relayed(&relay(&variable("POSTHASTE_TEST_REDIS_URL")));
}

#[test]
fn relay_cannot_be_measured_on_memory() {
    let output = posthaste(&["bench", "--store", "memory:", "--relay"]).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("name a database with --store"), "{}", text(&output));
}

/// The process that this one has started, and what it was told.
#[cfg(target_os = "linux")]
fn child_of(parent: u32) -> Option<(u32, String)> {
    let ids =
        std::fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let behind_the_name = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
        behind_the_name.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    let child = ids.into_iter().find(is_child)?;
    let told = std::fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?.replace('\0', " ");
    Some((child, told))
}

#[test]
#[cfg(target_os = "linux")]
fn interrupted_benchmark_ends_its_relay_and_removes_what_it_wrote() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = format!("sqlite:{}", dir.path().join("bench.db").display());
    let mut bench = posthaste(&["bench", "--store", &store, "--relay", "--idle", "3600"]);
    let mut bench = bench.stderr(std::process::Stdio::null()).spawn().expect("the binary runs");
    let (child, sink) = crate::relay::process::retry_until_ok("a relay that has delivered", || {
        let (child, told) = child_of(bench.id()).ok_or("no child")?;
        let sink = told.split("*=file://").nth(1).ok_or_else(|| told.clone())?.trim().to_owned();
        if std::path::Path::new(&sink).exists() { Ok((child, sink)) } else { Err(sink) }
    });
    let interrupt = std::process::Command::new("kill").args(["-INT", &bench.id().to_string()]).status();
    assert!(interrupt.expect("kill runs").success());
    assert!(!bench.wait().expect("it ends").success());
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists(), "the relay still runs");
    assert!(!std::path::Path::new(&sink).parent().expect("a folder").exists(), "{sink} is left");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}
