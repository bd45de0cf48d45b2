//! Stores on the screen: the overview, the views of an outbox and a group, and confirmed replays.

use insta::assert_snapshot;

use super::screen::Screen;
use super::{top, without_clock};
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

#[test]
fn overview_shows_pending_and_dead_events() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let screen = top(&shop, "", 80, 24);
    let text = screen.wait_until("rates", |text| text.contains("0.0   0.0"));
    assert_snapshot!(without_clock(&text), @"
     posthaste top: 1 outbox, 1 has dead                                  (time)
      outbox          pending   due retry parked  dead  oldest out/s  in/s state
    > sqlite:shop.db        2     1     1      0     3      0s   0.0   0.0 has dead
     sqlite:shop.db ────────────────────────────────────────────────────────────────
    pending 2: 1 due, 0 on lease, 0 parked, 1 scheduled; 1 of them retry
    dead 3, done 3, archived 0; oldest 0s; 0.0 out/s, 0.0 in/s
      DEAD type                          last reason
         2 Order:OrderPlaced            (days) connection refused
         1 __GLOBAL__:MailSent          (days) no route

    route       state       parked calls/s  waiting by type         events  oldest
    none is paused                          Order:OrderPlaced            2      0s











     Enter look closer  ? help  q quit
    ");
    shop.sql("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('w-1', 'A', '{}')");
    screen.wait_until("the new event", |text| text.contains("pending 3: 2 due"));
}

#[test]
fn confirmed_group_is_replayed_and_recorded() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let screen = top(&shop, "--actor ops", 80, 24);
    screen.wait_for("connection refused");
    screen.press("\r");
    screen.wait_for("posthaste top > sqlite:shop.db");
    screen.press("\r");
    let text = screen.wait_for("d-2");
    assert_snapshot!(without_clock(&text), @"
     posthaste top > sqlite:shop.db > OrderPlaced                         (time)
    DEAD Order:OrderPlaced, the oldest first
      id                                      died tries error
    > d-1                                    (days)    10 connection refused
      d-2                                    (days)    10 connection refused









     d-1 ───────────────────────────────────────────────────────────────────────────
    OrderPlaced of Order o-1 of tenant acme
    died at 2020-01-02T03:04:05Z after 10 tries
    connection refused





     r replay the group  Esc back  ? help  q quit
    ");
    screen.press("\x1b");
    screen.wait_for("Enter events of the group");
    screen.press("r");
    let text = screen.wait_for("Send 2 DEAD events out again?");
    assert_snapshot!(without_clock(&text), @r#"
     posthaste top > sqlite:shop.db                                       (time)
    pending 2: 1 due, 0 on lease, 0 parked, 1 scheduled; 1 of them retry
    dead 3, done 3, archived 0; oldest 0s; 0.0 out/s, 0.0 in/s
        DEAD type                         last reason
    >      2 Order:OrderPlaced           (days) connection refused
           1 __GLOBAL__:MailSent         (days) no route
           ┌ Replay ────────────────────────────────────────────────────────┐
    route  │ Send 2 DEAD events out again?                                  │ldest
    none is│                                                                │   0s
           │ outbox     sqlite:shop.db                                      │
           │ type       OrderPlaced                                         │
           │ aggregate  Order                                               │
           │ error      contains "connection refused"                       │
           │ on record  ops                                                 │
           │                                                                │
           │ They become NEW and due now, with no attempt counted.          │
           │ Destinations that already have an event do not get it again.   │
           └ y replays, any other key cancels ──────────────────────────────┘





     Enter events of the group  r replay it  Esc back  ? help  q quit
    "#);
    assert_eq!(dead(&shop), "d-1 d-2 d-3", "nothing is changed before consent");
    screen.press("y");
    screen.wait_for("2 events replayed, on record as ops");
    assert_eq!(dead(&shop), "d-3");
    let noted =
        shop.query("SELECT actor || ' ' || action || ' ' || rows || ' ' || target FROM outbox_event_audit");
    assert_eq!(
        noted,
        "ops replay 2 status=DEAD event_type=OrderPlaced aggregate_type=Order error_contains=connection refused"
    );
    screen.wait_until("the group is gone", |text| !text.contains("connection refused"));
}

fn dead(shop: &Shop) -> String {
    shop.query("SELECT event_id FROM outbox_event WHERE status = 3 ORDER BY event_id")
}

#[test]
fn paused_route_and_its_parked_events_are_shown() {
    let shop = Shop::empty(StoreKind::Sqlite);
    shop.run("pause mail");
    shop.sql(
        "INSERT INTO outbox_event (event_id, event_type, payload, available_at, parked)
         VALUES ('a', 'A', '{}', 4102444800000000, 'mail'), ('b', 'A', '{}', 4102444800000000, 'mail (probed)'),
           ('c', 'A', '{}', 4102444800000000, 'push')",
    );
    let screen = top(&shop, "", 80, 24);
    let text = screen.wait_for("paused by an operator: mail");
    assert!(text.contains("1 outbox, 1 closed"), "{text}");
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert!(words.contains(&vec!["mail", "paused", "2"]), "{text}");
    assert!(words.contains(&vec!["(others)", "closed", "1"]), "{text}");
}

#[test]
fn missing_store_shows_the_error_and_recovers() {
    let (shop, missing) = (Shop::seeded(StoreKind::Sqlite), Shop::bare(StoreKind::Sqlite));
    let url = format!("sqlite://{}", missing.path("shop.db").display());
    let screen = top(&shop, &format!("--store sqlite:shop.db --store {url}"), 132, 24);
    screen.wait_for("no reply");
    screen.wait_for("connection refused");
    screen.press("j");
    screen.wait_for("cannot be opened");
    missing.run("migrate apply");
    screen.wait_until("it recovers", |text| !text.contains("no reply") && text.contains("pending 0: 0 due"));
}

on_stores!([postgres, mysql, redis][server_is_shown_and_replayed]);

fn server_is_shown_and_replayed(kind: StoreKind) {
    let shop = Shop::seeded(kind);
    let screen = Screen::of(shop.command("top --interval 100ms"), 100, 24);
    screen.wait_for("connection refused");
    screen.press("\rr");
    screen.wait_for("Send 2 DEAD events out again?");
    screen.press("y");
    screen.wait_for("2 events replayed");
    screen.press("q");
    assert_eq!(screen.end().code, Some(0));
    let audit = shop.run("audit").stdout;
    assert!(audit.contains("cli:ann  replay  2"), "{audit}");
    assert!(shop.run("dead list").stdout.contains("1 of 1 shown"));
}

#[test]
fn configuration_file_shows_all_its_outboxes() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let output = shop.run("migrate apply --store sqlite:bills.db --table bill_event");
    assert_eq!(output.code, 0, "{output}");
    let file = r#"
        outbox.shop = { store = "sqlite:shop.db", route = [{ publish = "stdout:" }] }
        outbox.bills = { store = "sqlite:bills.db", table = "bill_event", route = [{ publish = "stdout:" }] }
    "#;
    shop.write_file("relay.toml", file);
    let screen = top(&shop, "--config relay.toml", 120, 24);
    screen.wait_until("both", |text| {
        ["2 outboxes", "sqlite:shop.db", "sqlite:bills.db --table bill_event"]
            .iter()
            .all(|part| text.contains(part))
    });
}
