//! Reading of files: values, and defaults of missing keys.

use std::time::Duration;

use posthaste::Mode;

use super::*;

#[test]
fn missing_settings_have_the_defaults_of_a_relay() {
    let config = good(&format!("{SHOP}[outbox.shop.poller]\nbatch = 100\n"), []);
    assert_eq!(config.admin, AdminConfig::default());
    assert_eq!(config.log, LogConfig::default());
    let outbox = &config.outboxes[0];
    let mut relay = Config::relay();
    relay.poller.batch = 100;
    assert_eq!(outbox.config.poller, relay.poller);
    assert_eq!(outbox.config.lease, relay.lease);
    assert_eq!((outbox.config.name.as_str(), outbox.config.mode), ("shop", Mode::MultiNode));
    assert!(!outbox.migrate);
    let route = &outbox.routes[0];
    assert_eq!((route.name.as_str(), route.aggregate.as_str(), route.event.as_str()), ("*", "*", "*"));
}

#[test]
fn every_setting_is_read() {
    let config = good(
        r#"
[admin]
listen = "0.0.0.0:80"
ready_lag = "1m"
tokens.ann = { role = "operator", token = "0123456789abcdef" }
[log]
format = "json"
level = "info,posthaste=debug"
[outbox.shop]
store = "redis://db/"
table = "shop.orders"
migrate = true
mode = "strict"
drain = "7s"
[[outbox.shop.route]]
name = "orders"
aggregate = "Order"
event = "OrderPlaced"
tenant = "acme-*"
publish = { one = "stdout:", two = "file:///x?fsync=true" }
format = "envelope"
concurrency = 2
rate = 100
timeout = "5s"
batch = 200
"#,
        [],
    );
    assert_eq!(config.admin.listen, Some("0.0.0.0:80".parse().unwrap()));
    assert_eq!(config.admin.tokens[0].name, "ann");
    assert_eq!(config.log, LogConfig { format: LogFormat::Json, level: "info,posthaste=debug".to_owned() });
    let outbox = &config.outboxes[0];
    assert_eq!(outbox.store.outbox_ref().table, "shop.orders");
    assert_eq!((outbox.migrate, outbox.config.mode, outbox.config.drain.as_secs()), (true, Mode::Strict, 7));
    let target = |name: &str, url: &str| Target {
        name: Some(name.to_owned()),
        url: url.parse().unwrap(),
        format: Some(posthaste_publishers::Format::Envelope),
        webhook: None,
    };
    let route = RouteConfig {
        name: "orders".to_owned(),
        aggregate: "Order".to_owned(),
        event: "OrderPlaced".to_owned(),
        tenant: Some("acme-*".to_owned()),
        publish: vec![target("one", "stdout:"), target("two", "file:///x?fsync=true")],
        concurrency: Some(2),
        rate: Some(100.0),
        timeout: Some(Duration::from_secs(5)),
        batch: Some(200),
    };
    assert_eq!(outbox.routes, [route]);
}

#[test]
fn listener_can_be_off() {
    assert_eq!(good(&format!("[admin]\nlisten = \"off\"\n{SHOP}"), []).admin.listen, None);
}

#[test]
fn shown_configuration_loads_as_the_same_configuration() {
    let text = format!(
        "{SHOP}[outbox.shop.retry]\nmax_attempts = 5\n[[outbox.shop.route]]\nevent = \"E\"\nrate = 5\ntimeout = \"5s\"\npublish = {{ a = \"stdout:\", b = \"file:///x\" }}\n[outbox.two]\nmode = \"strict\"\nstore = \"sqlite:x.db\"\nroute = [{{ publish = \"stdout:\", format = \"envelope\" }}]\n"
    );
    let config = good(&text, []);
    let first = toml::to_string(&shown(&config)).unwrap();
    let again = good(&first, []);
    assert_eq!(toml::to_string(&shown(&again)).unwrap(), first);
    assert_eq!(again.outboxes[0].routes, config.outboxes[0].routes);
}
