//! `posthaste config check` and `config show`.

use insta::assert_snapshot;

use crate::command_output::CommandOutput;
use crate::shop::{Shop, StoreKind};

const CONFIG_WITH_TEN_MISTAKES: &str = r#"# A relay for the shop.
[admin]
listen = "0.0.0.0:9911"
redy_lag = "5m"

[outbox.shop]
stroe = "postgres://shop:s3ntinel-PW-9f@db.example/shop"
workers = "many"

[outbox.shop.poller]
interval = "5 parsecs"
batch = 0

[[outbox.shop.route]]
aggregate = "Order"
publish = "kafak://ann:s3ntinel-PW-9f@broker:9092/orders"
rate = -1

[[outbox.shop.route]]
aggregate = "Order"
publish = "https://ann:${NOT_SET}@hooks.example/"
"#;

const VALID_CONFIG: &str = r#"
[admin.tokens.ann]
role = "operator"
token = "${TOKEN}"

[outbox.shop]
store = "postgres://shop:${DB_PASSWORD}@db.example/shop?sslmode=verify-full&password=s3ntinel-PW-9f"
[outbox.shop.retry]
max_attempts = 5
[[outbox.shop.route]]
name = "orders"
aggregate = "Order"
tenant = "acme-*"
publish = "https://ann:s3ntinel-PW-9f@hooks.example/orders/s3ntinel-PW-9f?key=s3ntinel-PW-9f"
format = "cloudevents"
rate = 100
[outbox.shop.route.webhook]
signing_key = "${SIGNING_KEY}"
headers = { X-Key = "${TOKEN}" }
allow_networks = ["10.0.0.0/8"]
connect_timeout = "2s"
[[outbox.shop.route]]
publish = { out = "stdout:", audit = "file:///var/log/audit.jsonl?fsync=true" }

[outbox.audit]
store = "sqlite:audit.db"
mode = "strict"
route = [{ publish = "stdout:" }]
"#;

const SIGNING_KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn run(file: &str, args: &str) -> CommandOutput {
    let shop = Shop::bare(StoreKind::Sqlite);
    shop.write_file("posthaste.toml", file);
    let mut command = shop.command(&format!("config {args}"));
    command
        .env("TOKEN", "s3ntinel-PW-9f-and-more")
        .env("DB_PASSWORD", "s3ntinel-PW-9f")
        .env("SIGNING_KEY", SIGNING_KEY);
    CommandOutput::of(command.output().expect("the binary starts"))
}

#[test]
fn file_with_ten_mistakes_gets_ten_errors() {
    let output = run(CONFIG_WITH_TEN_MISTAKES, "check --config posthaste.toml");
    assert!(output.stderr.starts_with("posthaste.toml has 10 problems\n"), "{output}");
    assert_snapshot!(output, @r#"
--- stderr
posthaste.toml has 10 problems

posthaste.toml:3:10: admin.listen: other hosts can reach this address, and there is no token: add [admin.tokens.NAME] with role and token, or listen on 127.0.0.1
  3 | listen = "0.0.0.0:9911"
    |          ^^^^^^^^^^^^^^

posthaste.toml:4:1: admin.redy_lag: no such setting: did you mean `ready_lag`?
  4 | redy_lag = …
    | ^^^^^^^^

posthaste.toml:7:1: outbox.shop.stroe: no such setting: did you mean `store`?
  7 | stroe = …
    | ^^^^^

posthaste.toml:8:11: outbox.shop.workers: must be a whole number, zero or more
  8 | workers = "many"
    |           ^^^^^^

posthaste.toml:11:12: outbox.shop.poller.interval: is not a duration: write it as in "5s", "200ms" or "1h 30m"
  11 | interval = "5 parsecs"
     |            ^^^^^^^^^^^

posthaste.toml:12:9: outbox.shop.poller.batch: is 0, must be between 1 and 10000
  12 | batch = 0
     |         ^

posthaste.toml:16:11: outbox.shop.route[0].publish: publisher: the URL has an unknown scheme: write one of kafka, amqp, amqps, nats, tls, redis-stream, rediss-stream, http, https, stdout, file
  16 | publish = …
     |           ^

posthaste.toml:17:8: outbox.shop.route[0].rate: rate must be a number above zero
  17 | rate = -1
     |        ^^

posthaste.toml:19:1: outbox.shop.route[1]: another route takes the same events: remove one of them
  19 | [[outbox.shop.route]]
     | ^^^^^^^^^^^^^^^^^^^^^

posthaste.toml:21:11: outbox.shop.route[1].publish: the variable NOT_SET is not set: set it, or write $${ for the text ${
  21 | publish = …
     |           ^
--- exit code 1
"#);
}

#[test]
fn file_with_ten_mistakes_gets_ten_errors_in_json() {
    let output = run(CONFIG_WITH_TEN_MISTAKES, "check --config posthaste.toml --output json");
    assert_snapshot!(output, @r#"
{"good":false,"problems":[{"source":"posthaste.toml","line":3,"column":10,"setting":"admin.listen","what":"other hosts can reach this address, and there is no token: add [admin.tokens.NAME] with role and token, or listen on 127.0.0.1"},{"source":"posthaste.toml","line":4,"column":1,"setting":"admin.redy_lag","what":"no such setting: did you mean `ready_lag`?"},{"source":"posthaste.toml","line":7,"column":1,"setting":"outbox.shop.stroe","what":"no such setting: did you mean `store`?"},{"source":"posthaste.toml","line":8,"column":11,"setting":"outbox.shop.workers","what":"must be a whole number, zero or more"},{"source":"posthaste.toml","line":11,"column":12,"setting":"outbox.shop.poller.interval","what":"is not a duration: write it as in \"5s\", \"200ms\" or \"1h 30m\""},{"source":"posthaste.toml","line":12,"column":9,"setting":"outbox.shop.poller.batch","what":"is 0, must be between 1 and 10000"},{"source":"posthaste.toml","line":16,"column":11,"setting":"outbox.shop.route[0].publish","what":"publisher: the URL has an unknown scheme: write one of kafka, amqp, amqps, nats, tls, redis-stream, rediss-stream, http, https, stdout, file"},{"source":"posthaste.toml","line":17,"column":8,"setting":"outbox.shop.route[0].rate","what":"rate must be a number above zero"},{"source":"posthaste.toml","line":19,"column":1,"setting":"outbox.shop.route[1]","what":"another route takes the same events: remove one of them"},{"source":"posthaste.toml","line":21,"column":11,"setting":"outbox.shop.route[1].publish","what":"the variable NOT_SET is not set: set it, or write $${ for the text ${"}]}
--- exit code 1
"#);
}

#[test]
fn correct_file_is_summarized() {
    let output = run(VALID_CONFIG, "check --config posthaste.toml");
    assert_snapshot!(output, @r#"
posthaste.toml is good: 2 outboxes, 3 routes
--- exit code 0
"#);
    let output = run(VALID_CONFIG, "check --config posthaste.toml --output json");
    assert_snapshot!(output, @r#"
{"good":true,"problems":[]}
--- exit code 0
"#);
}

#[test]
fn invalid_toml_is_reported_with_its_position() {
    let output = run(
        "[outbox.shop]\nstore = \"postgres://u:s3ntinel-PW-9f@db/shop\nworkers 4\nx = = 1\n",
        "check --config posthaste.toml",
    );
    assert!(!output.stderr.contains("s3ntinel"), "{output}");
    assert_snapshot!(output, @r#"
--- stderr
posthaste.toml has 4 problems

posthaste.toml:2:45: is not TOML: invalid basic string, expected `"`
  2 | store = …
    |         ^

posthaste.toml:3:9: is not TOML: key with no value, expected `=`
  3 | workers …
    |         ^

posthaste.toml:4:5: is not TOML: extra `=`, expected nothing

posthaste.toml:4:7: is not TOML: unexpected key or value, expected newline, `#`
--- exit code 1
"#);
}

#[test]
fn configuration_is_shown_with_its_defaults_and_without_secrets() {
    let output = run(VALID_CONFIG, "show --config posthaste.toml");
    assert!(!output.stdout.contains("s3ntinel") && !output.stdout.contains(SIGNING_KEY), "{output}");
    assert_eq!(output.code, 0, "{output}");
    let (general, outboxes) = output.stdout.split_once("[outbox.audit]\n").expect("two outboxes");
    let (audit, shop) = outboxes.split_once("[outbox.shop]\n").expect("two outboxes");
    assert_snapshot!(format!("{general}[outbox.shop]\n{shop}"), @r#"
[admin]
listen = "127.0.0.1:9911"
ready_lag = "5m"

[admin.tokens.ann]
role = "operator"
token = "***"

[log]
format = "text"
level = "info"

[outbox.shop]
busy_grace = "1day"
drain = "30s"
migrate = false
mode = "multi_node"
no_route_grace = "10m"
pgbouncer = false
publish_timeout = "10s"
schema = "public"
store = "postgres://***@db.example/shop?sslmode=verify-full&password=***"
store_timeout = "10s"
table = "outbox_event"
workers = 4

[outbox.shop.lease]
duration = "30s"
hot = "10s"

[outbox.shop.metrics]
prefix = "outbox"

[outbox.shop.poller]
batch = 500
busy_interval = "50ms"
interval = "250ms"
skip_recent = "0s"

[outbox.shop.purge]
batch = 500
interval = "1h"
on_done = "keep"

[outbox.shop.purge.dead]
action = "keep"
after = "7days"

[outbox.shop.purge.done]
action = "delete"
after = "7days"

[outbox.shop.queue]
bytes = 16777216
cold = 1000
fairness = "weighted"
hot = 1000

[outbox.shop.retry]
base_delay = "200ms"
jitter = [0.5, 1.5]
max_attempts = 5
max_delay = "1m"

[[outbox.shop.route]]
aggregate = "Order"
event = "*"
format = "cloudevents"
name = "orders"
publish = "https://***@hooks.example/***"
rate = 100.0
tenant = "acme-*"

[outbox.shop.route.webhook]
allow_http = false
allow_networks = ["10.0.0.0/8"]
connect_timeout = "2s"
signing_key = "***"

[outbox.shop.route.webhook.headers]
X-Key = "***"

[[outbox.shop.route]]
aggregate = "*"
event = "*"
name = "*"

[outbox.shop.route.publish]
audit = "file:///var/log/audit.jsonl?fsync=true"
out = "stdout:"
"#);
    let audit = audit.replace("outbox.audit", "outbox.shop");
    let differs: Vec<&str> = audit.lines().filter(|line| !shop.contains(line)).collect();
    assert_snapshot!(differs.join("\n"), @r#"
mode = "strict"
no_route_grace = "0s"
store = "sqlite:audit.db"
workers = 1
fairness = "hot_first"
max_attempts = 1
publish = "stdout:"
"#);
    assert_eq!(audit.lines().filter(|line| !line.is_empty()).count(), 46, "{audit}");
    let json = run(VALID_CONFIG, "show --config posthaste.toml --output json");
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let same: serde_json::Value = toml::from_str(&output.stdout).unwrap();
    assert_eq!(document, same);
}

#[test]
fn shown_configuration_is_correct_except_for_its_secrets() {
    let shown = run(VALID_CONFIG, "show --config posthaste.toml").stdout;
    let checked = run(&shown, "check --config posthaste.toml --output json");
    let document: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    let settings: Vec<&str> = document["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["setting"].as_str().unwrap())
        .collect();
    assert_eq!(settings, ["admin.tokens.ann.token", "outbox.shop.route[0].webhook.signing_key"], "{checked}");
}

#[test]
fn options_alone_make_a_configuration() {
    let output = run("", "check --store sqlite:x.db --publish Order.*=stdout: --publish stdout:");
    assert_snapshot!(output, @r#"
the configuration is good: 1 outbox, 2 routes
--- exit code 0
"#);
    let output = run("", "check --publish Order.*=kafak://u:s3ntinel-PW-9f@h --listen 0.0.0.0:1");
    assert!(!output.stderr.contains("s3ntinel"), "{output}");
    assert_snapshot!(output, @r#"
--- stderr
the configuration has 2 problems

--listen: admin.listen: other hosts can reach this address, and there is no token: add [admin.tokens.NAME] with role and token, or listen on 127.0.0.1

--publish: outbox.outbox.route[0].publish: publisher: the URL has an unknown scheme: write one of kafka, amqp, amqps, nats, tls, redis-stream, rediss-stream, http, https, stdout, file
--- exit code 1
"#);
}

#[test]
fn options_alone_do_not_allow_http() {
    let output = run("", "check --store sqlite:x.db --publish http://hooks.example/");
    assert_snapshot!(output, @r#"
--- stderr
the configuration has 1 problem

--publish: outbox.outbox.route[0].publish: http sends events in the clear: write https, or allow it in a configuration file with webhook.allow_http = true below the route
--- exit code 1
"#);
}

#[test]
fn file_and_options_cannot_be_combined() {
    let output = run(VALID_CONFIG, "check --config posthaste.toml --publish stdout:");
    assert_snapshot!(output, @r#"
--- stderr
error: the argument '--config <FILE>' cannot be used with '--publish <[PATTERN=]URL>'

Usage: posthaste config check --config <FILE>

For more information, try '--help'.
--- exit code 2
"#);
    let output = run(VALID_CONFIG, "show");
    assert_snapshot!(output, @r#"
--- stderr
error: there is nothing to deliver: name a file with --config posthaste.toml, or give --store URL and --publish 'PATTERN=URL'
--- exit code 2
"#);
    let output = run(VALID_CONFIG, "show --config missing.toml");
    assert_snapshot!(output, @r#"
--- stderr
error: missing.toml has 1 problem

missing.toml: does not exist: check the path
--- exit code 2
"#);
}

#[test]
fn environment_overrides_the_file() {
    let shop = Shop::bare(StoreKind::Sqlite);
    shop.write_file(
        "posthaste.toml",
        "[outbox.shop]\nstore = \"sqlite:a.db\"\nroute = [{ publish = \"stdout:\" }]\n",
    );
    let mut command = shop.command("config show --config posthaste.toml --output json");
    command
        .env("POSTHASTE__OUTBOX__SHOP__WORKERS", "9")
        .env("POSTHASTE__OUTBOX__SHOP__ROUTE__0__RATE", "0.5");
    let output = CommandOutput::of(command.output().unwrap());
    let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(document["outbox"]["shop"]["workers"], 9);
    assert_eq!(document["outbox"]["shop"]["route"][0]["rate"], 0.5);
    let mut command = shop.command("config check --config posthaste.toml");
    let output = CommandOutput::of(
        command.env("POSTHASTE__OUTBOX__SHPO__WORKERS", "s3ntinel-PW-9f").output().unwrap(),
    );
    assert_snapshot!(output, @r#"
--- stderr
posthaste.toml has 1 problem

POSTHASTE__OUTBOX__SHPO__WORKERS: outbox.shpo.workers: matches no setting: there is no outbox `shpo`: did you mean `shop`?
--- exit code 1
"#);
}
