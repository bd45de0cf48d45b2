//! Relays on the screen, beside stores.

use super::screen::Screen;
use crate::binary::posthaste;
use crate::relay::file_sink::Sink;
use crate::relay::process::Relay;
use crate::relay::{file, ids, options};
use crate::shop::{Shop, StoreKind};

/// Starts `posthaste top` with these arguments.
fn top(args: &[&str]) -> Screen {
    let mut command = posthaste(&["top", "--interval", "100ms"]);
    command.args(args).env("USER", "ann");
    for name in ["NO_COLOR", "POSTHASTE_STORE", "POSTHASTE_RELAY", "POSTHASTE_TOKEN"] {
        command.env_remove(name);
    }
    Screen::of(command, 100, 24)
}

fn url(relay: &Relay) -> String {
    format!("http://{}", relay.address())
}

/// The words of the first line that contains this word.
fn line<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let found = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    found.into_iter().find(|args| args.contains(&word)).unwrap_or_default()
}

#[test]
fn relay_and_store_are_shown_together() {
    let (served, other, sink) = (Shop::empty(StoreKind::Sqlite), Shop::empty(StoreKind::Sqlite), Sink::new());
    let relay = Relay::start(&file(
        &sink,
        &served,
        &format!("[[outbox.shop.route]]\nname = \"files\"\npublish = {:?}\n", sink.url("out")),
    ));
    other.write(&ids(0, 3));
    let store = other.options().pop().expect("a URL");
    let screen = top(&["--relay", &url(&relay), "--store", &store]);
    screen.wait_until("both", |text| text.contains("2 outboxes") && text.contains("pending 3: 3 due"));
    screen.press("j");
    let text = screen.wait_until("the route", |text| line(text, "files").contains(&"open"));
    assert!(text.contains(&format!("{} shop", relay.address())), "{text}");

    // The rate is computed from the relay's counter of deliveries.
    let mut written = 0;
    screen.wait_until("a rate", |text| {
        served.write(&ids(written, 20));
        written += 20;
        let rate = line(text, "files").get(3).and_then(|rate| rate.parse::<f64>().ok());
        rate.is_some_and(|rate| rate > 0.0)
    });
    served.json("pause files");
    screen.wait_for("paused by an operator: files");
    screen.press("q");
    assert_eq!(screen.end().code, Some(0));
    relay.stop();
}

#[test]
fn destination_that_cannot_be_reached_closes_its_route_on_the_screen() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let relay = Relay::start(&options(&outbox, &["--publish", "*=redis-stream://127.0.0.1:1/0?stream=x"]));
    outbox.write(&ids(0, 5));
    let screen = top(&["--relay", &url(&relay)]);
    let text = screen.wait_for("the destination cannot be reached: *");
    assert!(text.contains("1 outbox, 1 closed"), "{text}");
    // Events that the relay sent to the destination as probes are not parked.
    let waits = |text: &str| line(text, "unreachable").get(2).and_then(|count| count.parse().ok());
    screen.wait_until("what waits", |text| waits(text).is_some_and(|count: u32| (3..=5).contains(&count)));
    relay.stop();
}

#[test]
fn relay_replays_under_the_name_of_the_token() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    outbox.sql(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, payload, status, last_error, done_at)
         VALUES ('d-1', 'Made', 'Order', '{}', 3, 'no item', 1577934245000000)",
    );
    let tokens = "[admin.tokens.eve]\nrole = \"viewer\"\ntoken = \"viewer-0123456789abcdef\"\n\
                  [admin.tokens.ann]\nrole = \"operator\"\ntoken = \"operator-0123456789abcdef\"\n";
    let route = format!("[[outbox.shop.route]]\npublish = {:?}\n", sink.url("out"));
    let relay = Relay::start(&file(&sink, &outbox, &format!("{route}{tokens}")));
    let token = |role: &str| {
        let path = sink.path(role);
        std::fs::write(&path, format!("{role}-0123456789abcdef\n")).expect("a file");
        path.display().to_string()
    };

    let screen = top(&["--relay", &url(&relay), "--token-file", &token("viewer")]);
    screen.wait_for("no item");
    screen.press("\rr");
    screen.wait_for("Send 1 DEAD event out again?");
    screen.press("y");
    screen.wait_for("the replay stopped after 0 events: the relay refuses: this needs the role operator");
    screen.press("q");
    screen.end();

    let screen = top(&["--relay", &url(&relay), "--token-file", &token("operator")]);
    screen.wait_for("no item");
    screen.press("\rr");
    screen.wait_for("Send 1 DEAD event out again?");
    screen.press("y");
    screen.wait_for("1 event replayed, on record as the name of your token");
    sink.wait_for_each_once(&["out"], &["d-1".to_owned()]);
    assert_eq!(
        outbox.query("SELECT actor || ' ' || action || ' ' || rows FROM outbox_event_audit"),
        "api:ann replay 1"
    );

    let screen = top(&["--relay", &url(&relay)]);
    screen.wait_for("the token is missing or unknown");
    relay.stop();
}

#[test]
fn restarted_relay_recovers_on_the_screen() {
    let (outbox, other) = (Shop::empty(StoreKind::Sqlite), Shop::empty(StoreKind::Sqlite));
    let relay = Relay::start(&options(&outbox, &["--publish", "stdout:"]));
    let (address, store) = (relay.address().to_owned(), other.options().pop().expect("a URL"));
    let screen = top(&["--relay", &url(&relay), "--store", &store]);
    screen.wait_until("both reply", |text| text.matches(" ok\n").count() == 2);
    screen.press("j");
    relay.stop();
    screen.wait_for("2 outboxes, 1 no reply");
    screen.wait_for("(the last state is below): the relay cannot be reached: check that it runs");
    other.write(&ids(0, 4));
    screen.press("k");
    screen.wait_for("pending 4: 4 due");

    let mut options = outbox.options();
    options.extend(["--listen", &address, "--publish", "stdout:"].map(str::to_owned));
    let relay = Relay::start(&options);
    screen.wait_until("it is back", |text| !text.contains("no reply") && text.contains("2 outboxes"));
    relay.stop();
}
