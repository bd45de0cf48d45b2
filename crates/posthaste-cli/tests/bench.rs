//! `posthaste bench`: every figure is there, and nothing is left behind.

mod binary;

use binary::json_of;
use serde_json::Value;

const RATES: [&str; 7] = [
    "business_tx_per_s",
    "outbox_tx_per_s",
    "hand_written_tx_per_s",
    "live_single_events_per_s",
    "live_batch_events_per_s",
    "backlog_events_per_s",
    "write_and_drain_events_per_s",
];

fn bench(store: &str) -> Value {
    json_of(&[
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
    ])
}

fn assert_complete(report: &Value) {
    for name in RATES {
        assert!(report[name].as_f64() > Some(0.0), "{name} in {report}");
    }
    for name in ["outbox_to_business", "outbox_to_hand_written"] {
        let ratio = |of: &str| report[name][of].as_f64().unwrap_or_default();
        assert!(0.0 < ratio("lowest") && ratio("lowest") <= ratio("median"), "{name} in {report}");
        assert!(ratio("median") <= ratio("highest"), "{name} in {report}");
    }
    for name in ["live_single", "live_batch", "backlog"] {
        assert!(report["settle_batch_mean"][name].as_f64() >= Some(1.0), "{name} in {report}");
    }
    assert_eq!(report["latency_us"]["count"], 50);
    assert!(report.get("peak_memory_bytes").is_some(), "{report}");
    let many = &report["flatness"]["many"];
    assert_eq!(many["future_rows"], 100, "{report}");
    for name in ["claim_us", "settle_us"] {
        assert!(many[name]["p50"].as_u64().is_some(), "{name} in {report}");
    }
}

#[test]
fn memory_store_gives_every_figure() {
    assert_complete(&bench("memory:"));
}

#[test]
fn sqlite_gives_every_figure_and_the_new_file_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bench.db");
    assert_complete(&bench(&format!("sqlite:{}", file.display())));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[tokio::test]
async fn sqlite_file_of_somebody_else_keeps_its_own_tables_alone() -> Result<(), sqlx::Error> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("service.db");
    let url = format!("sqlite:{}?mode=rwc", file.display());
    let pool = sqlx::SqlitePool::connect(&url).await?;
    sqlx::query("CREATE TABLE posthaste_bench (mine TEXT)").execute(&pool).await?;
    assert_complete(&bench(&format!("sqlite:{}", file.display())));
    let tables = "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&pool).await?;
    assert_eq!(tables, ["posthaste_bench"]);
    Ok(())
}
