//! `posthaste bench`: the report is complete, and nothing is left behind.

use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_testkit::variable;
use serde_json::Value;
use sqlx::Connection as _;

use crate::binary::{json_of, posthaste, signal, text};
use crate::on_stores::on_stores;
use crate::shop::{StoreKind, block_on};

/// Benchmarks on one server run one after the other: otherwise one would see the tables of another as left behind.
static POSTGRES_LOCK: Mutex<()> = Mutex::new(());
static MYSQL_LOCK: Mutex<()> = Mutex::new(());
static REDIS_LOCK: Mutex<()> = Mutex::new(());

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

/// Runs a benchmark of this store with further arguments.
fn bench(store: &str, args: &str) -> Value {
    let args: Vec<&str> = ["bench", "--store", store].into_iter().chain(args.split_whitespace()).collect();
    json_of(&args)
}

const EVERYTHING: &str =
    "--events 50 --writers 2 --workers 2 --rounds 2 --done-rows 1100 --future-rows 100 --steady 5";

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
    assert_complete(&bench("memory:", EVERYTHING));
}

#[test]
fn sqlite_gives_every_figure_and_the_new_file_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bench.db");
    assert_complete(&bench(&format!("sqlite:{}", file.display()), EVERYTHING));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[tokio::test]
async fn existing_sqlite_file_keeps_its_own_tables() -> Result<(), sqlx::Error> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("service.db");
    let url = format!("sqlite:{}?mode=rwc", file.display());
    let pool = sqlx::SqlitePool::connect(&url).await?;
    sqlx::query("CREATE TABLE posthaste_bench (mine TEXT)").execute(&pool).await?;
    assert_complete(&bench(&format!("sqlite:{}", file.display()), EVERYTHING));
    let tables = "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&pool).await?;
    assert_eq!(tables, ["posthaste_bench"]);
    Ok(())
}

on_stores!([postgres, mysql, redis] [
    server_gives_every_figure_and_keeps_nothing,
    relay_on_a_server_gives_every_figure_and_leaves_nothing
]);

/// The server of the tests. When this is dropped, it checks that the benchmark left nothing behind.
struct BenchServer {
    kind: StoreKind,
    url: String,
    before: Vec<String>,
    _alone: MutexGuard<'static, ()>,
}

impl BenchServer {
    fn new(kind: StoreKind) -> Self {
        let (variable_name, lock) = match kind {
            StoreKind::Postgres => ("POSTHASTE_TEST_POSTGRES_URL", &POSTGRES_LOCK),
            StoreKind::MySql => ("POSTHASTE_TEST_MYSQL_URL", &MYSQL_LOCK),
            _ => ("POSTHASTE_TEST_REDIS_URL", &REDIS_LOCK),
        };
        let (url, alone) = (variable(variable_name), lock.lock().unwrap_or_else(PoisonError::into_inner));
        Self { kind, before: left_behind(kind, &url).expect("the server runs"), url, _alone: alone }
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(left_behind(self.kind, &self.url).expect("the server runs"), self.before);
        }
    }
}

/// Schemas, tables or keys of benchmarks on this server.
fn left_behind(kind: StoreKind, url: &str) -> anyhow::Result<Vec<String>> {
    const SCHEMAS_SQL: &str =
        "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'posthaste_bench%' ORDER BY 1";
    const TABLES_SQL: &str = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables
       WHERE table_schema = DATABASE() AND table_name LIKE 'posthaste_bench%' ORDER BY 1";
    if kind == StoreKind::Redis {
        let mut connection = redis::Client::open(url)?.get_connection()?;
        return Ok(redis::cmd("KEYS").arg("*posthaste_bench*").query(&mut connection)?);
    }
    block_on(async {
        Ok(if kind == StoreKind::Postgres {
            let mut connection = sqlx::PgConnection::connect(url).await?;
            sqlx::query_scalar(SCHEMAS_SQL).fetch_all(&mut connection).await?
        } else {
            let mut connection = sqlx::MySqlConnection::connect(url).await?;
            sqlx::query_scalar(TABLES_SQL).fetch_all(&mut connection).await?
        })
    })
}

fn server_gives_every_figure_and_keeps_nothing(kind: StoreKind) {
    let server = BenchServer::new(kind);
    let report = bench(&server.url, &format!("{EVERYTHING} --snapshot-rows 200"));
    assert_complete(&report);
    let by_hand = &report["by_hand"];
    for name in ["backlog_to_drain", "backlog_to_one_by_one"] {
        assert_ratio(&by_hand[name], name);
    }
    assert_ratio(&report["settle_rows_per_s"]["kept_to_one_by_one"], "kept_to_one_by_one");
    assert!(report["between_processes_us"]["p50"].as_u64().is_some(), "{report}");
    if kind == StoreKind::Redis {
        assert!(by_hand["proved_tx_per_s"].is_null() && report["snapshot"].is_null(), "{report}");
        return;
    }
    for name in ["proved_to_hand_written", "outbox_to_proved"] {
        assert_ratio(&by_hand[name], name);
    }
    for name in ["without", "with", "with_last_fifth"] {
        assert!(report["snapshot"][name]["p50"].as_u64().is_some(), "{name} in {report}");
    }
    let notify = "notify_to_without_notify";
    if kind == StoreKind::Postgres {
        assert_ratio(&by_hand[notify], notify);
    } else {
        assert!(by_hand[notify].is_null(), "{report}");
    }
}

fn publish(store: &str, to: &str) -> Value {
    bench(store, &format!("--publish {to} --events 300 --rounds 2"))
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
    let (postgres, redis) = (BenchServer::new(StoreKind::Postgres), variable("POSTHASTE_TEST_REDIS_URL"));
    let stream = format!("bench:{}", std::process::id());
    let to = redis.replacen("redis://", "redis-stream://", 1) + "0?stream=" + &stream;
    assert_published(&publish(&postgres.url, &to));
    let mut connection = redis::Client::open(redis)?.get_connection()?;
    let entries: u64 = redis::cmd("XLEN").arg(&stream).query(&mut connection)?;
    redis::cmd("DEL").arg(&stream).exec(&mut connection)?;
    assert_eq!(entries, 2 * 2 * 300);
    Ok(())
}

#[test]
fn publishing_without_a_broker_fails_with_the_reason_and_without_secrets() {
    for (to, reason) in [
        ("amqp://me:s3ntinel-PW-9f@127.0.0.1:1/%2f?routing_key=q", "refused"),
        ("redis-stream://:s3ntinel-PW-9f@127.0.0.1:1/0?stream=s", "refused"),
        ("kafak://me:s3ntinel-PW-9f@127.0.0.1:1/t", "the benchmark does not know this publisher"),
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

mod layouts {
    use super::*;

    on_stores!([postgres, mysql][layouts_give_every_figure_and_leave_nothing]);

    fn layouts_give_every_figure_and_leave_nothing(kind: StoreKind) {
        let server = BenchServer::new(kind);
        for preset in ["order-service", "outbox-record", "debezium"] {
            let report = bench(&server.url, &format!("--layout {preset} --events 2100 --rounds 2"));
            assert_eq!(report["layout"], preset, "{report}");
            for name in ["own_events_per_s", "layout_events_per_s"] {
                assert!(report[name].as_f64() > Some(0.0), "{name} in {report}");
            }
            assert_ratio(&report["layout_to_own"], "layout_to_own");
        }
    }
}

#[test]
fn layout_cannot_be_measured_where_there_are_none() {
    let args = ["bench", "--store", "memory:", "--layout", "debezium", "--events", "10"];
    let output = posthaste(&args).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("layouts are for PostgreSQL, MySQL and MariaDB"), "{}", text(&output));
}

fn relay(store: &str) -> Value {
    bench(store, "--relay --events 50 --rounds 2 --idle 1")
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

fn relay_on_a_server_gives_every_figure_and_leaves_nothing(kind: StoreKind) {
    assert_relayed(&relay(&BenchServer::new(kind).url));
}

#[test]
fn relay_cannot_be_measured_on_memory() {
    let output = posthaste(&["bench", "--store", "memory:", "--relay"]).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("name a database with --store"), "{}", text(&output));
}

/// The child process of `parent`, and its arguments.
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
    let args = std::fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?.replace('\0', " ");
    Some((child, args))
}

#[test]
#[cfg(target_os = "linux")]
fn interrupted_benchmark_ends_its_relay_and_removes_what_it_wrote() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = format!("sqlite:{}", dir.path().join("bench.db").display());
    let mut bench = posthaste(&["bench", "--store", &store, "--relay", "--idle", "3600"]);
    let mut bench = bench.stderr(std::process::Stdio::null()).spawn().expect("the binary runs");
    let (child, sink) = crate::relay::process::retry_until_ok("a relay that has delivered", || {
        let (child, args) = child_of(bench.id()).ok_or("no child")?;
        let sink = args.split("*=file://").nth(1).ok_or_else(|| args.clone())?.trim().to_owned();
        if std::path::Path::new(&sink).exists() { Ok((child, sink)) } else { Err(sink) }
    });
    signal(&bench, "INT");
    assert!(!bench.wait().expect("it ends").success());
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists(), "the relay still runs");
    assert!(!std::path::Path::new(&sink).parent().expect("a folder").exists(), "{sink} is left");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}
