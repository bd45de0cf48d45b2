//! The systemd unit, the image, the manifest and the example file: every path, flag, variable and number in them is
//! correct.

use std::time::Duration;

use serde_json::Value;
use yaml_rust2::Yaml;

use super::{assert_accepted, check, path, read, words, yaml};
use crate::binary::{posthaste, text};
use crate::relay::options;
use crate::relay::process::Relay;
use crate::shop::{Shop, StoreKind};

const CONFIG_PATH: &str = "/etc/posthaste/posthaste.toml";

/// How long a relay of the examples may take to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The command is `relay` with the file, and the program has every option of it.
fn assert_runs_the_relay(words: &[&str]) {
    assert_eq!(words, ["relay", "--config", CONFIG_PATH]);
    let help = text(&posthaste(&["relay", "--help"]).output().expect("the binary runs"));
    for option in words.iter().filter(|word| word.starts_with("--")) {
        assert!(help.contains(option), "{option} is not in:\n{help}");
    }
}

#[test]
fn example_file_is_accepted() {
    let file = path("deploy/posthaste.toml");
    assert_accepted(&check(file.to_str().expect("a plain path"), &[]));
}

#[test]
fn page_shows_the_example_file() {
    let (page, file) = (read("docs/relay.md"), read("deploy/posthaste.toml"));
    assert!(
        page.contains(&format!("```toml\n{file}```")),
        "docs/relay.md does not match deploy/posthaste.toml"
    );
}

mod unit {
    use super::*;

    /// The values of a key, in the order of the file.
    fn values<'u>(unit: &'u str, key: &str) -> Vec<&'u str> {
        let pairs = unit.lines().filter_map(|line| line.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| value).collect()
    }

    #[test]
    fn unit_starts_the_relay_and_waits_for_its_drain() {
        let unit = read("deploy/posthaste.service");
        let start: Vec<&str> = values(&unit, "ExecStart")[0].split(' ').collect();
        assert_eq!(start[0], "/usr/local/bin/posthaste");
        assert_runs_the_relay(&start[1..]);
        let stop = humantime::parse_duration(values(&unit, "TimeoutStopSec")[0]).expect("a duration");
        assert!(stop > DRAIN_TIMEOUT);
    }

    #[test]
    fn credential_of_the_unit_is_the_store_of_the_example() {
        let unit = read("deploy/posthaste.service");
        let (name, _) = values(&unit, "LoadCredential")[0].split_once(':').expect("a name and a file");
        let (variable, outbox) = values(&unit, "Environment")[0].split_once('=').expect("a variable");
        assert_eq!(outbox, format!("%d/{name}"));

        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join(name);
        std::fs::write(&secret, "no-such-scheme://x\n").expect("a file");
        let file = path("deploy/posthaste.toml");
        let wrong = [(variable, secret.to_str().expect("a plain path"))];
        let output = check(file.to_str().expect("a plain path"), &wrong);
        assert_eq!(output.status.code(), Some(1), "the file was not read: {}", text(&output));
        std::fs::write(&secret, "postgres://relay:secret@db.example/shop\n").expect("a file");
        assert_accepted(&check(file.to_str().expect("a plain path"), &wrong));
    }
}

mod image {
    use super::*;

    /// The arguments of an instruction, line by line.
    fn instructions<'d>(dockerfile: &'d str, name: &str) -> Vec<&'d str> {
        let pairs = dockerfile.lines().filter_map(|line| line.split_once(' '));
        pairs.filter(|(instruction, _)| *instruction == name).map(|(_, rest)| rest).collect()
    }

    /// The paths that are copied from the repository.
    fn sources(dockerfile: &str) -> Vec<&str> {
        let copies = instructions(dockerfile, "COPY").into_iter().filter(|copy| !copy.starts_with("--from"));
        let words = copies.flat_map(|copy| {
            let words: Vec<&str> = copy.split(' ').collect();
            words[..words.len() - 1].to_vec()
        });
        words.collect()
    }

    #[test]
    fn image_is_built_from_existing_files() {
        let (dockerfile, ignored) = (read("deploy/Dockerfile"), read("deploy/Dockerfile.dockerignore"));
        let sources = sources(&dockerfile);
        let mut sent: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
        sent.sort_unstable();
        let mut copied = sources.clone();
        copied.sort_unstable();
        assert_eq!(copied, sent, "every copied path is in the build context");
        for source in &sources {
            assert!(path(source).exists(), "{source} is not there");
        }
        let workspace: toml::Table = read("Cargo.toml").parse().expect("a manifest");
        let members = workspace["workspace"]["members"].as_array().expect("a list").iter();
        for member in members.map(|member| member.as_str().expect("a path").trim_end_matches("/*")) {
            assert!(sources.contains(&member), "cargo needs {member}");
        }
        let features: toml::Table = read("crates/posthaste-cli/Cargo.toml").parse().expect("a manifest");
        let (_, feature) = instructions(&dockerfile, "ARG")[0].split_once('=').expect("a default");
        assert!(features["features"].get(feature).is_some(), "there is no feature {feature}");
    }

    #[test]
    fn compiler_of_the_image_is_new_enough() {
        let workspace: toml::Table = read("Cargo.toml").parse().expect("a manifest");
        let needed =
            workspace["workspace"]["package"]["rust-version"].as_str().expect("a version").to_owned();
        let dockerfile = read("deploy/Dockerfile");
        let image = instructions(&dockerfile, "FROM")[0];
        let version = image.strip_prefix("rust:").and_then(|rest| rest.split('-').next()).expect("a version");
        let minor = |version: &str| -> u32 {
            version.split('.').nth(1).and_then(|minor| minor.parse().ok()).expect("a minor version")
        };
        assert!(minor(version) >= minor(&needed), "{version} is older than {needed}");
    }

    #[test]
    fn image_runs_the_relay_as_an_unprivileged_user() {
        let dockerfile = read("deploy/Dockerfile");
        let list = |name| -> Vec<String> {
            serde_json::from_str(instructions(&dockerfile, name)[0]).expect("a list in JSON")
        };
        assert_eq!(list("ENTRYPOINT"), ["posthaste"]);
        let command = list("CMD");
        assert_runs_the_relay(&command.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(instructions(&dockerfile, "USER"), ["65532:65532"]);
    }
}

mod kubernetes {
    use super::*;

    fn kind(kind: &str) -> Yaml {
        let documents = yaml("deploy/kubernetes.yaml").into_iter();
        let mut found = documents.filter(|document| document["kind"].as_str() == Some(kind));
        found.next().unwrap_or_else(|| panic!("there is no {kind}"))
    }

    fn pod() -> Yaml {
        kind("Deployment")["spec"]["template"]["spec"].clone()
    }

    fn relay_file() -> String {
        kind("ConfigMap")["data"]["posthaste.toml"].as_str().expect("the file").to_owned()
    }

    /// The variables of the container, each with the key of the secret from which it is set.
    fn secrets(container: &Yaml) -> Vec<(&str, &str)> {
        let variables = container["env"].as_vec().expect("variables").iter();
        let pairs = variables.map(|variable| {
            let key = variable["valueFrom"]["secretKeyRef"]["key"].as_str();
            (variable["name"].as_str().expect("a name"), key.expect("a key of the secret"))
        });
        pairs.collect()
    }

    #[test]
    fn manifest_needs_every_key_of_its_secret() {
        let pod = pod();
        let secrets = secrets(&pod["containers"][0]);
        let manifest = read("deploy/kubernetes.yaml");
        for (_, key) in &secrets {
            assert!(
                manifest.contains(&format!("--from-literal={key}=")),
                "the instructions do not create {key}"
            );
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("posthaste.toml");
        std::fs::write(&file, relay_file()).expect("a file");
        let file = file.to_str().expect("a plain path");

        let values: Vec<(&str, String)> = secrets
            .into_iter()
            .map(|(name, key)| match key {
                "shop-store" => (name, "postgres://relay:secret@db.example/shop".to_owned()),
                key => (name, format!("{key}-0123456789abcdef")),
            })
            .collect();
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_accepted(&check(file, &values));
        for left_out in 0..values.len() {
            let mut fewer = values.clone();
            let (name, _) = fewer.remove(left_out);
            assert_eq!(check(file, &fewer).status.code(), Some(1), "{name} is not used");
        }
    }

    #[test]
    fn deployment_runs_the_relay_with_the_mounted_file() {
        let pod = pod();
        let container = &pod["containers"][0];
        assert_runs_the_relay(&words(&container["args"]));
        let mount = container["volumeMounts"][0]["mountPath"].as_str().expect("a path");
        assert_eq!(format!("{mount}/posthaste.toml"), CONFIG_PATH);
        let grace = pod["terminationGracePeriodSeconds"].as_i64().expect("a number");
        assert!(Duration::from_secs(grace.unsigned_abs()) > DRAIN_TIMEOUT);
    }

    #[test]
    fn probes_of_the_deployment_succeed_on_a_relay() {
        let pod = pod();
        let container = &pod["containers"][0];
        let file: toml::Table = relay_file().parse().expect("TOML");
        let listen = file["admin"]["listen"].as_str().expect("an address");
        let port = container["ports"][0]["containerPort"].as_i64().expect("a port");
        assert_eq!(listen, format!("0.0.0.0:{port}"));

        let outbox = Shop::empty(StoreKind::Sqlite);
        let relay = Relay::start(&options(&outbox, &["--publish", "stdout:"]));
        for probe in ["livenessProbe", "readinessProbe"] {
            let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
            relay.wait_until(path, |response| response.status == 200);
        }
        let scraped = &kind("Deployment")["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(scraped["prometheus.io/port"].as_str(), Some(port.to_string().as_str()));
        let path = scraped["prometheus.io/path"].as_str().expect("a path");
        assert_eq!(relay.get(path).status, 200);
        relay.stop();
    }
}

#[test]
fn every_panel_has_a_description() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let output = panel["description"].as_str().unwrap_or_default();
        assert!(output.len() > 40, "{} says too little: {output:?}", panel["title"]);
    }
}

#[test]
fn exactly_the_alerts_are_explained() {
    let alerts = yaml("deploy/alerts.yaml");
    let rules = alerts[0]["groups"][0]["rules"].as_vec().expect("rules");
    let mut names: Vec<&str> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names.len(), rules.len());
    let page = read("docs/operations.md");
    let mut explained: Vec<&str> = page
        .split('`')
        .filter(|word| word.starts_with("Posthaste") && word.chars().all(|c| c.is_ascii_alphanumeric()))
        .collect();
    explained.sort_unstable();
    explained.dedup();
    assert_eq!(explained, names);
}
