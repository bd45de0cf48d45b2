//! Webhook settings: accepted values, refused values, and secrets that are never shown.

use posthaste_publishers::Format;

use super::super::environment::Environment;
use super::super::{Problems, RelayConfig, Source, shown};
use super::*;

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECRET: &str = "s3ntinel-PW-9f";

/// Loads one route with these lines below it.
fn read<const N: usize>(
    publish: &str,
    below: &str,
    variables: [(&str, &str); N],
) -> Result<RelayConfig, Problems> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("posthaste.toml");
    let text = format!(
        "[outbox.shop]\nstore = \"sqlite:x.db\"\n[[outbox.shop.route]]\nname = \"hooks\"\npublish = {publish}\n{below}"
    );
    std::fs::write(&file, text).unwrap();
    Source::File(file).load_with(&Environment::from(variables))
}

/// The problems of one line in the webhook table of a route.
fn reported(line: &str) -> Vec<String> {
    let problems = read("\"https://h.example/\"", &format!("[outbox.shop.route.webhook]\n{line}\n"), []);
    let problems = problems.expect_err(line);
    let reported = problems.iter().map(|problem| {
        let setting = problem.setting.strip_prefix("outbox.shop.route[0].").unwrap();
        format!("{} {setting}: {}", problem.line.unwrap(), problem.what)
    });
    reported.collect()
}

fn only(config: &RelayConfig) -> WebhookConfig {
    config.outboxes[0].routes[0].publish[0].webhook.clone().expect("a table")
}

#[test]
fn every_webhook_setting_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let authority = rcgen::generate_simple_self_signed(["h.example".to_owned()]).unwrap().cert.pem();
    std::fs::write(&ca, &authority).unwrap();
    let below = format!(
        "format = \"cloudevents-structured\"\n[outbox.shop.route.webhook]\nsigning_key = \"{KEY}\"\n\
         previous_signing_key = \"${{OLD}}\"\nheaders = {{ Authorization = \"Bearer ${{TOKEN}}\" }}\n\
         allow_http = true\nallow_networks = [\"10.0.0.0/8\"]\nrequests = 2\nconnect_timeout = \"1s\"\n\
         max_body_bytes = 1000\nca = {ca:?}\n"
    );
    let urls = "{ in = \"http://10.0.0.1/?format=x\", out = \"stdout:\" }";
    let config =
        read(urls, &below, [("OLD", KEY), ("TOKEN", SECRET)]).unwrap_or_else(|error| panic!("{error}"));
    let webhook = WebhookConfig {
        signing_key: Some(Secret::new(KEY)),
        previous_signing_key: Some(Secret::new(KEY)),
        headers: vec![("Authorization".to_owned(), Secret::new(format!("Bearer {SECRET}")))],
        allow_http: true,
        allow_networks: vec!["10.0.0.0/8".to_owned()],
        requests: Some(2),
        connect_timeout: Some(Duration::from_secs(1)),
        max_body_bytes: Some(1000),
        ca: Some(Authorities { path: ca.display().to_string(), pem: authority.into() }),
    };
    assert_eq!(only(&config), webhook);
    let targets = &config.outboxes[0].routes[0].publish;
    assert_eq!(targets[0].url.expose(), "http://10.0.0.1/?format=x");
    assert!(targets.iter().all(|target| target.format == Some(Format::CloudEventsStructured)));
    assert_eq!(targets[1].webhook, None);
    let shown = toml::to_string(&shown(&config)).unwrap();
    let printed = format!("{config:?} {shown}");
    assert!(!printed.contains(SECRET) && !printed.contains(KEY) && !printed.contains("BEGIN"), "{printed}");
}

#[test]
fn shown_webhook_settings_load_as_the_same_settings() {
    let below = "format = \"envelope\"\n[outbox.shop.route.webhook]\nheaders = { X-Key = \"***\" }\n\
                 allow_http = true\nallow_networks = [\"127.0.0.1\"]\nrequests = 2\nconnect_timeout = \"1s\"\n\
                 max_body_bytes = 1000\n";
    let config = read("\"http://127.0.0.1/\"", below, []).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("again.toml");
    std::fs::write(&file, toml::to_string(&shown(&config)).unwrap()).unwrap();
    let again = Source::File(file).load_with(&Environment::default()).unwrap();
    assert_eq!(again.outboxes[0].routes, config.outboxes[0].routes);
}

#[test]
fn each_mistake_in_webhook_settings_is_reported_at_its_place() {
    const KEYS: &str = "a signing key is whsec_ and 24 to 64 bytes in base64: make one with \
                        `echo whsec_$(openssl rand -base64 32)`";
    const RANGE: &str = "a whole number, 1 or more";
    for (line, expected) in [
        ("signing_key = \"x\"", format!("7 webhook.signing_key: {KEYS}")),
        ("signing_kye = \"x\"", "7 webhook.signing_kye: no such setting: did you mean `signing_key`?".to_owned()),
        (
            &*format!("previous_signing_key = \"{KEY}\""),
            "7 webhook.signing_key: is missing: previous_signing_key needs it, so give both".to_owned(),
        ),
        (
            &*format!("previous_signing_key = \"{KEY}\"\nsigning_key = \"x\""),
            format!("8 webhook.signing_key: {KEYS}"),
        ),
        ("headers = { Host = \"x\" }", "7 webhook.headers: cannot set host: the publisher sets it for each request".to_owned()),
        (
            "headers = { X = 5 }",
            "7 webhook.headers: contains a value that is not text: write NAME = \"value\"".to_owned(),
        ),
        ("headers = { \"a b\" = \"x\" }", "7 webhook.headers: was given a name that is not a valid HTTP header name".to_owned()),
        ("allow_http = \"yes\"", "7 webhook.allow_http: must be true or false".to_owned()),
        (
            "allow_networks = \"10.0.0.0/8\"",
            "7 webhook.allow_networks: must be a list of networks, as in [\"10.0.0.0/8\"]".to_owned(),
        ),
        (
            "allow_networks = [\"10\"]",
            "7 webhook.allow_networks: contains a text that is not a network: write one as 10.0.0.0/8, fd00::/8 or \
             127.0.0.1"
                .to_owned(),
        ),
        ("requests = 0", "7 webhook.requests: must be 1 to 10000".to_owned()),
        ("requests = -1", format!("7 webhook.requests: must be {RANGE}")),
        (
            "connect_timeout = \"0s\"",
            "7 webhook.connect_timeout: must be longer than zero and at most an hour".to_owned(),
        ),
        ("max_body_bytes = 0", format!("7 webhook.max_body_bytes: must be {RANGE}")),
        (
            "ca = \"/not/there.pem\"",
            "7 webhook.ca: cannot be read (No such file or directory (os error 2)): check that it is a file that \
             this user may read"
                .to_owned(),
        ),
        (
            "ca = \"/dev/null\"",
            "7 webhook.ca: the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it"
                .to_owned(),
        ),
    ] {
        assert_eq!(reported(line), [expected], "{line}");
    }
}

#[test]
fn webhook_table_without_a_webhook_url_is_refused() {
    let table = "[outbox.shop.route.webhook]\nallow_http = true\n";
    let problems = read("\"stdout:\"", table, []).unwrap_err().to_string();
    let what = "route[0].webhook: is for https URLs, and this route has none: leave it out";
    assert!(problems.contains(what), "{problems}");
    // The URL may be that of a webhook with a misspelt scheme, so only the URL is reported.
    let problems = read("\"htps://h.example/\"", table, []).unwrap_err();
    assert_eq!(problems.iter().count(), 1, "{problems}");
}

#[test]
fn http_is_refused_until_it_is_allowed() {
    let loaded = |below: &str| read("\"http://8.8.8.8/\"", below, []);
    let problems = loaded("").unwrap_err().to_string();
    assert!(problems.contains("with webhook.allow_http = true below the route"), "{problems}");
    assert!(loaded("webhook = { allow_http = false }\n").is_err());
    assert!(loaded("webhook = { allow_http = true }\n").is_ok());
    // Only the invalid permission is reported, and not the URL that depends on it.
    let problems = loaded("webhook = { allow_http = 1 }\n").unwrap_err();
    assert_eq!(problems.iter().count(), 1, "{problems}");
}

#[test]
fn environment_overrides_webhook_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    let config = read(
        "\"http://10.1.1.1/\"",
        "",
        [
            ("POSTHASTE__OUTBOX__SHOP__ROUTE__HOOKS__WEBHOOK__SIGNING_KEY_FILE", file.to_str().unwrap()),
            ("POSTHASTE__OUTBOX__SHOP__ROUTE__HOOKS__WEBHOOK__ALLOW_HTTP", "true"),
            ("POSTHASTE__OUTBOX__SHOP__ROUTE__HOOKS__WEBHOOK__ALLOW_NETWORKS", "[\"10.0.0.0/8\"]"),
            ("POSTHASTE__OUTBOX__SHOP__ROUTE__HOOKS__WEBHOOK__HEADERS__AUTHORIZATION", "17"),
        ],
    );
    let webhook = only(&config.unwrap());
    assert_eq!(webhook.signing_key, Some(Secret::new(KEY)));
    assert_eq!(webhook.headers, [("authorization".to_owned(), Secret::new("17"))]);
    assert!(webhook.allow_http);
}
