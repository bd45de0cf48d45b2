//! Mistakes: each is reported at its place, with what to do.

use super::*;

/// The table has an invalid line of `[outbox.shop]` and the problem that is reported.
#[test]
fn each_mistake_in_an_outbox_is_reported_at_its_place() {
    for (line, reported) in [
        ("workrs = 4", "3:1 outbox.shop.workrs: no such setting: did you mean `workers`?"),
        ("workers = \"4\"", "3:11 outbox.shop.workers: must be a whole number, zero or more"),
        ("workers = 0", "3:11 outbox.shop.workers: is 0, must be between 1 and 10000"),
        ("mode = \"multi\"", "3:8 outbox.shop.mode: must be multi_node or single_node or strict"),
        (
            "mode = \"writer_only\"",
            "3:8 outbox.shop.mode: a relay delivers, so it cannot be writer_only: write multi_node, single_node or strict",
        ),
        (
            "mode = \"writer_only\"\npoller.interval = \"1s\"\nqueue.hot = 5",
            "3:8 outbox.shop.mode: a relay delivers, so it cannot be writer_only: write multi_node, single_node or strict",
        ),
        (
            "drain = \"soon\"",
            "3:9 outbox.shop.drain: is not a duration: write it as in \"5s\", \"200ms\" or \"1h 30m\"",
        ),
        ("drain = 5", "3:9 outbox.shop.drain: must be a duration such as \"5s\" or \"200ms\""),
        ("poller = 5", "3:10 outbox.shop.poller: must be a table"),
        ("retry.jitter = 5", "3:16 outbox.shop.retry.jitter: must be two numbers, as in [0.5, 1.5]"),
        (
            "retry.max_delay = \"1ms\"",
            "3:1 outbox.shop.retry.base_delay: is longer than retry.max_delay (1ms)",
        ),
        (
            "retry.base_delay = \"0s\"",
            "3:20 outbox.shop.retry.base_delay: is zero: an event would spend all its attempts within a moment",
        ),
        (
            "metrics.prefix = \"outbox.\"",
            "3:18 outbox.shop.metrics.prefix: must be letters, digits and underscores, a letter first, with single dots between them",
        ),
        (
            "name = \"x\"",
            "3:1 outbox.shop.name: has no effect here: the outbox is named by its section: write [outbox.NAME]",
        ),
        (
            "handler_timeout = \"5s\"",
            "3:1 outbox.shop.handler_timeout: has no effect here: a relay has no handlers: write publish_timeout, or a route's timeout",
        ),
        (
            "payload_bytes = 5",
            "3:1 outbox.shop.payload_bytes: has no effect here: a relay writes no events: limit payloads where they are written",
        ),
        (
            "table = \"drop table\"",
            "3:9 outbox.shop.table: cannot name an outbox table: take a letter or _, then letters, digits and _, at most 48 in all, not beginning with sqlite_",
        ),
        ("pgbouncer = 1", "3:13 outbox.shop.pgbouncer: must be true or false"),
        ("migrate = \"yes\"", "3:11 outbox.shop.migrate: must be true or false"),
    ] {
        let text = SHOP.replacen("[outbox.shop]\n", &format!("[outbox.shop]\n{line}\n"), 1);
        assert_eq!(refused(&text, []), [reported], "{line}");
    }
}

#[test]
fn each_mistake_in_a_route_is_reported_at_its_place() {
    for (line, reported) in [
        ("rat = 1", "6:1 outbox.shop.route[0].rat: no such setting: did you mean `rate`?"),
        ("rate = 0", "6:8 outbox.shop.route[0].rate: rate must be a number above zero"),
        ("rate = nan", "6:8 outbox.shop.route[0].rate: rate must be a number above zero"),
        (
            "rate = \"fast\"",
            "6:8 outbox.shop.route[0].rate: must be a number of events per second, such as 100 or 0.5",
        ),
        (
            "concurrency = 0",
            "6:15 outbox.shop.route[0].concurrency: concurrency is 0: pause the route instead",
        ),
        ("batch = 10001", "6:9 outbox.shop.route[0].batch: batch must be between 1 and 10000"),
        ("batch = -1", "6:9 outbox.shop.route[0].batch: must be a whole number, 1 or more"),
        (
            "timeout = \"2days\"",
            "6:11 outbox.shop.route[0].timeout: timeout must be longer than zero and at most a day",
        ),
        (
            "timeout = \"x\"",
            "6:11 outbox.shop.route[0].timeout: is not a duration: write it as in \"5s\", \"200ms\" or \"1h 30m\"",
        ),
        (
            "event = \"\"",
            "6:9 outbox.shop.route[0].event: must be a name, or a pattern in which * stands for any text",
        ),
        (
            "name = \"no route\"",
            "6:8 outbox.shop.route[0].name: this name is for events without a route: choose another",
        ),
        (
            "format = \"xml\"",
            "6:10 outbox.shop.route[0].format: must be raw or envelope or cloudevents or cloudevents-structured or debezium",
        ),
    ] {
        let text =
            format!("{}{line}\n", SHOP.trim_start_matches('\n').replace("[outbox.shop]", "\n[outbox.shop]"));
        assert_eq!(refused(&text, []), [reported], "{line}");
    }
}

#[test]
fn missing_settings_are_reported_where_they_belong() {
    let none = "there is no outbox: write [outbox.NAME] with store and [[outbox.NAME.route]] with publish";
    assert_eq!(refused("", []), [format!("1:1 outbox: {none}")]);
    assert_eq!(
        refused("[outbox.shop]\n", []),
        [
            "1:1 outbox.shop.route: is missing: say where events go with [[outbox.shop.route]] and publish = \"URL\"",
            "1:1 outbox.shop.store: is missing: write where the outbox is, as in store = \"postgres://user@host/database\"",
        ]
    );
    let without = SHOP.replace("publish = \"stdout:\"", "");
    assert_eq!(
        refused(&without, []),
        [
            "4:1 outbox.shop.route[0].publish: is missing: write where the events go, as in publish = \"kafka://host:9092/topic\""
        ]
    );
}

#[test]
fn conflicting_routes_are_reported_once() {
    let twice = format!("{SHOP}[[outbox.shop.route]]\npublish = \"stdout:\"\n");
    let same = "6:1 outbox.shop.route[1]: another route takes the same events: remove one of them";
    assert_eq!(refused(&twice, []), [same]);
    let named = "[[outbox.shop.route]]\nname = \"a\"\nevent = \"E\"\npublish = \"stdout:\"\n";
    let named = format!("{SHOP}{named}{}", named.replace("\"E\"", "\"F\""));
    let same = "10:1 outbox.shop.route[2]: outbox.shop.route[1] has the same name: rename one of them";
    assert_eq!(refused(&named, []), [same]);
    let tenants = format!("{SHOP}[[outbox.shop.route]]\ntenant = \"a\"\npublish = \"stdout:\"\n");
    assert_eq!(good(&tenants, []).outboxes[0].routes[1].name, "*@a");
}

#[test]
fn store_and_publisher_urls_are_checked_without_connecting() {
    let reported = refused(&SHOP.replace("postgres:", "oracle:").replace("stdout:", "kafak://h/t"), []);
    assert!(
        reported[0].starts_with("3:9 outbox.shop.store: is not the URL of a known store: write postgres://"),
        "{reported:?}"
    );
    assert!(
        reported[1]
            .starts_with("5:11 outbox.shop.route[0].publish: publisher: the URL has an unknown scheme"),
        "{reported:?}"
    );
    let reported = refused(&SHOP.replace("postgres://shop@db/shop", "memory:"), []);
    assert_eq!(
        reported,
        ["3:9 outbox.shop.store: no other process can write into the memory of a relay: name a database"]
    );
    let text =
        SHOP.replace("postgres://shop@db/shop", "mysql://u@db/shop\"\nschema = \"x\"\npgbouncer = true#");
    let reported = refused(&text, []);
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(reported.iter().all(|reported| reported.ends_with("is for PostgreSQL only: leave it out")));
}

#[test]
fn open_listener_needs_a_token() {
    let open = format!("[admin]\nlisten = \"[::]:9911\"\n{SHOP}");
    let reported = refused(&open, []);
    assert!(reported[0].starts_with("2:10 admin.listen: other hosts can reach this address"), "{reported:?}");
    assert_eq!(reported.len(), 1);
    let short = format!("{open}[admin.tokens.ann]\nrole = \"viewer\"\ntoken = \"123456789012345\"\n");
    let reported = refused(&short, []);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].starts_with("10:9 admin.tokens.ann.token: is shorter than 16 characters"),
        "{reported:?}"
    );
}

#[test]
fn mistakes_in_tokens_are_reported() {
    let text = format!(
        "{SHOP}[admin.tokens]\na = {{ role = \"viewer\", token = \"0123456789abcdef\" }}\n\
         b = {{ role = \"viewer\", token = \"0123456789abcdef\" }}\nc = \"x\"\n\
         d = {{ role = \"boss\", tokn = \"0123456789abcdef\" }}\n"
    );
    assert_eq!(
        refused(&text, []),
        [
            "8:5 admin.tokens.b.token: is also the token of a: give each its own token",
            "9:5 admin.tokens: contains something that is not a table: write [admin.tokens.NAME] with role and token",
            "10:14 admin.tokens.d.role: must be viewer or operator",
            "10:22 admin.tokens.d.tokn: no such setting: did you mean `token`?",
        ]
    );
}

#[test]
fn two_outboxes_in_one_table_are_refused() {
    let two = |lines: &str| format!("{SHOP}[outbox.two]\n{lines}\nroute = [{{ publish = \"stdout:\" }}]\n");
    let same = "store = \"postgres://shop@db/shop\"";
    for lines in [same, &format!("{same}\ntable = \"outbox_event\"\nschema = \"public\"")] {
        assert_eq!(
            refused(&two(lines), []),
            [
                "7:9 outbox.two: has the same store and table as outbox.shop: give it a table of its own, or put its routes there"
            ]
        );
    }
    for lines in [
        "store = \"postgres://shop@db/other\"",
        &format!("{same}\ntable = \"orders\""),
        &format!("{same}\nschema = \"shop\""),
    ] {
        assert_eq!(good(&two(lines), []).outboxes.len(), 2, "{lines}");
    }
}

#[test]
fn levels_and_formats_of_logs_are_checked() {
    let reported = refused(&format!("[log]\nlevel = \"inof\"\nformat = \"xml\"\n{SHOP}"), []);
    assert_eq!(
        reported,
        ["2:9 log.level: no such level: did you mean `info`?", "3:10 log.format: must be text or json"]
    );
}
