//! The metrics of a running relay are the ones in the dashboard, the alerts and the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use yaml_rust2::Yaml;

use super::{path, read, yaml};
use crate::relay::file_sink::Sink;
use crate::relay::process::Relay;
use crate::relay::{ids, options};
use crate::shop::{Shop, StoreKind};

/// The contents of `/metrics`: the lines of each series by name, and the names in `# TYPE` lines.
struct Metrics {
    series: BTreeMap<String, Vec<String>>,
    types: BTreeSet<String>,
}

impl Metrics {
    fn of(text: &str) -> Self {
        let (mut series, mut types) = (BTreeMap::<String, Vec<String>>::new(), BTreeSet::new());
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                types.extend(declared.split(' ').next().map(str::to_owned));
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                series.entry(name.to_owned()).or_default().push(line.to_owned());
            }
        }
        Self { series, types }
    }

    fn sum(&self, name: &str) -> f64 {
        let lines = self.series.get(name).into_iter().flatten();
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// The metrics of a relay on this store, after it delivered events and one destination was unreachable: taken when all
/// of these counts are above zero.
fn after_some_deliveries(outbox: &Shop, counts: &[&str]) -> Metrics {
    let sink = Sink::new();
    let made = format!("Order.Made={}", sink.url("made"));
    let lost = format!("Order.Lost={}", sink.url("no/such/folder"));
    let relay = Relay::start(&options(outbox, &["--publish", &made, "--publish", &lost]));
    outbox.write(&ids(0, 20));
    outbox.write_as("Lost", &ids(20, 1));
    let response = relay.wait_until("/metrics", |response| {
        let metrics = Metrics::of(&response.body);
        counts.iter().all(|name| metrics.sum(name) > 0.0)
    });
    relay.stop();
    Metrics::of(&response.body)
}

/// The store also has an event that cannot be parsed.
fn of_sqlite() -> Metrics {
    let shop = Shop::empty(StoreKind::Sqlite);
    shop.sql(
        "INSERT INTO outbox_event (event_id, event_type, payload, headers) VALUES ('x', 'Made', '{}', 'no')",
    );
    let counts = ["outbox_dispatch_success", "outbox_dispatch_unreachable", "outbox_dispatch_dead"];
    after_some_deliveries(&shop, &counts)
}

/// The text of all files in a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let text = |path: PathBuf| {
        if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).expect("a text") }
    };
    entries.map(text).collect()
}

/// Every name in a text that starts like the name of a Posthaste metric, with underscores.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("outbox_") || word.starts_with("posthaste_")).collect()
}

/// Every metric in a page, as Prometheus spells it.
fn documented(page: &str) -> BTreeSet<String> {
    let quoted = read(page);
    let words = quoted.split('`').skip(1).step_by(2);
    let metrics = words.filter(|word| word.starts_with("outbox.") || word.starts_with("posthaste."));
    let names = metrics.filter(|word| !word.contains([' ', '*', '/', '…']) && !word.ends_with(".toml"));
    names.map(|name| name.replace('.', "_")).collect()
}

/// The expressions of the dashboard and of the alerts, each with its panel, variable or alert.
fn expressions() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let of_panels = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (panel["title"].to_string(), target["expr"].to_string()))
    });
    let variables = dashboard["templating"]["list"].as_array().expect("variables").iter();
    let of_variables =
        variables.map(|variable| (variable["name"].to_string(), variable["query"].to_string()));
    let alerts = yaml("deploy/alerts.yaml");
    let rules = alerts[0]["groups"][0]["rules"].as_vec().expect("rules").iter();
    let text = |rule: &Yaml, key: &str| rule[key].as_str().expect("a text").to_owned();
    let of_alerts = rules.map(|rule| (text(rule, "alert"), text(rule, "expr")));
    of_panels.chain(of_variables).chain(of_alerts).collect()
}

#[test]
fn dashboard_and_alerts_use_metrics_that_a_relay_reports() {
    let metrics = of_sqlite();
    let mut checked = 0;
    for (place, expression) in expressions() {
        for name in names(&expression) {
            let series = metrics.series.get(name).unwrap_or_else(|| panic!("{place}: there is no {name}"));
            let by_route = expression.contains("outbox, route") || expression.contains("route=~");
            assert!(!by_route || series[0].contains("route=\""), "{place}: {name} has no label route");
            checked += 1;
        }
    }
    assert!(checked > 30, "the expressions were not found: {checked}");
}

#[test]
fn page_about_metrics_names_exactly_the_metrics() {
    let metrics = of_sqlite();
    let page = documented("docs/metrics.md");
    let (of_redis, of_all): (BTreeSet<_>, BTreeSet<_>) =
        page.into_iter().partition(|name| name.starts_with("outbox_redis"));
    assert_eq!(metrics.types, of_all);

    // A counter of Redis is reported from its first increment on, which for most of them never happens.
    let source = sources(&path("crates/posthaste-redis/src")).replace('.', "_");
    for name in &of_redis {
        assert!(source.contains(name), "{name} is not counted by posthaste-redis");
    }
    for name in documented("docs/operations.md") {
        assert!(metrics.types.contains(&name) || of_redis.contains(&name), "there is no {name}");
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn relay_on_redis_reports_only_documented_metrics() {
    let outbox = Shop::empty(StoreKind::Redis);
    let metrics = after_some_deliveries(&outbox, &["outbox_dispatch_success", "outbox_dispatch_unreachable"]);
    let page = documented("docs/metrics.md");
    let unknown: Vec<&String> = metrics.types.difference(&page).collect();
    assert!(unknown.is_empty(), "docs/metrics.md does not name {unknown:?}");
}
