//! Snapshots of every view. Those of the overview and of the question before a replay are in `docs/top.md`.

use crossterm::event::KeyCode;
use insta::assert_snapshot;
use tokio::time::Instant;

use super::support::{
    at_the_relay, both, buffer, dead_event, of_relay, refused, screen, troubled, two_sources,
};
use crate::commands::top::app::{App, Message};

fn in_a_group() -> App {
    let mut app = at_the_relay();
    app.key(KeyCode::Enter);
    app.update(Message::Listed { target: refused(), result: Ok((1..=12).map(dead_event).collect()) });
    app
}

fn before_a_replay(count: u64) -> App {
    let mut app = at_the_relay();
    app.char('r');
    app.update(Message::Counted { target: refused(), result: Ok(count) });
    app
}

#[test]
fn overview_on_a_wide_screen_has_room_for_names_and_tenants() {
    let mut app = both();
    app.char('j');
    assert_snapshot!(screen(&app, 132, 21), @"
     posthaste top: 2 outboxes, 1 late                                                                                        12:04:05Z
      outbox                                                              pending   due retry parked  dead  oldest out/s  in/s state
      sqlite:///var/lib/shop/shop.db                                            3     1     0      0     0       -  96.5  96.5 ok
    > 127.0.0.1:9911 shop                                                    1034    12   134   1000    14  1h 12m  12.5   0.0 late
     127.0.0.1:9911 shop ───────────────────────────────────────────────────────────────────────────────────────────────────────────────
    the oldest pending event that has been due was inserted 1h 12m ago: check whether an engine runs, which destinations are slow, and
    which routes are closed
    the destination cannot be reached: push
    paused by an operator: mail
    pending 1034: 12 due, 2 on lease, 1000 parked, 20 scheduled; 134 of them retry
    dead 14, done 98765, archived 0; oldest 1h 12m; 12.5 out/s, 0.0 in/s
      DEAD type                                              last reason
        12 Order:OrderPlaced                                3m 5s connection refused
         2 Order:OrderPaid                                  3m 5s the order names no item

    route            state       parked calls/s  waiting by type             events  oldest  waiting by tenant            events  oldest
    orders           open             0    15.5  Order:OrderPlaced             1000  1h 12m  acme                           1034  1h 12m
    mail             paused         400     0.0  Mail:MailSent                   34  1h 12m
    push             unreachable    600     0.0

     Enter look closer  ? help  q quit
    ");
}

#[test]
fn sources_without_a_reply_have_no_figures() {
    assert_snapshot!(screen(&two_sources(), 80, 10), @"
     posthaste top: 2 outboxes                                            12:04:05Z
      outbox          pending   due retry parked  dead  oldest out/s  in/s state
    > …b/shop/shop.db       -     -     -      -     -       -     -     - waiting
      127.0.0.1:9911        -     -     -      -     -       -     -     - waiting
     sqlite:///var/lib/shop/shop.db ────────────────────────────────────────────────
    waiting for a reply …



     Enter look closer  ? help  q quit
    ");
}

#[test]
fn source_without_a_reply_shows_the_error() {
    let mut app = both();
    app.miss(1, "the relay cannot be reached: see that it runs, and where it listens: connection refused");
    app.char('j');
    assert_snapshot!(screen(&app, 80, 16), @"
     posthaste top: 2 outboxes, 1 no reply                                12:04:05Z
      outbox          pending   due retry parked  dead  oldest out/s  in/s state
      …b/shop/shop.db       3     1     0      0     0       -  96.5  96.5 ok
    > ….0.1:9911 shop    1034    12   134   1000    14  1h 12m     -     - no reply
     127.0.0.1:9911 shop ───────────────────────────────────────────────────────────
    no reply for 0s (the last state is below): the relay cannot be reached: see that
    it runs, and where it listens: connection refused
    the oldest pending event that has been due was inserted 1h 12m ago: check
    whether an engine runs, which destinations are slow, and which routes are closed
    the destination cannot be reached: push
    paused by an operator: mail
    pending 1034: 12 due, 2 on lease, 1000 parked, 20 scheduled; 134 of them retry
    dead 14, done 98765, archived 0; oldest 1h 12m; - out/s, - in/s


     Enter look closer  ? help  q quit
    ");
}

#[test]
fn outbox_shows_its_groups_and_routes() {
    assert_snapshot!(screen(&at_the_relay(), 80, 24), @"
     posthaste top > 127.0.0.1:9911 shop                                  12:04:05Z
    the oldest pending event that has been due was inserted 1h 12m ago: check
    whether an engine runs, which destinations are slow, and which routes are closed
    the destination cannot be reached: push
    paused by an operator: mail
    pending 1034: 12 due, 2 on lease, 1000 parked, 20 scheduled; 134 of them retry
    dead 14, done 98765, archived 0; oldest 1h 12m; 12.5 out/s, 0.0 in/s
        DEAD type                         last reason
    >     12 Order:OrderPlaced           3m 5s connection refused
           2 Order:OrderPaid             3m 5s the order names no item

    route       state       parked calls/s  waiting by type         events  oldest
    orders      open             0    15.5  Order:OrderPlaced         1000  1h 12m
    mail        paused         400     0.0  Mail:MailSent               34  1h 12m
    push        unreachable    600     0.0








     Enter events of the group  r replay it  Esc back  ? help  q quit
    ");
}

#[test]
fn group_shows_its_events_without_what_they_carry() {
    assert_snapshot!(screen(&in_a_group(), 80, 24), @"
     posthaste top > 127.0.0.1:9911 shop > OrderPlaced                    12:04:05Z
    DEAD Order:OrderPlaced, the oldest first
      id                                      died tries error
    > 0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e01   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e02   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e03   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e04   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e05   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e06   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e07   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e08   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e09   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e10   3m 5s    10 connection refused (os erro
      0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e11   3m 5s    10 connection refused (os erro
     0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e01 ──────────────────────────────────────────
    OrderPlaced of Order o-1 of tenant acme
    died at 2020-01-02T12:01:00Z after 10 tries, replayed once before
    connection refused (os error 111)





     r replay the group  Esc back  ? help  q quit
    ");
}

#[test]
fn question_says_when_more_events_match_than_the_group_has() {
    let shown = screen(&before_a_replay(13), 80, 24);
    assert!(shown.contains("Send 13 DEAD events out again?"), "{shown}");
    assert!(shown.contains("These are more events than the group has"), "{shown}");
    assert!(!screen(&before_a_replay(12), 80, 24).contains("more events than the group has"));
}

#[test]
fn help_names_every_key() {
    let mut app = both();
    app.char('?');
    assert_snapshot!(screen(&app, 80, 16), @"
     posthaste top: 2 outboxes, 1 late                                    12:04:05Z
      outbox          pending   due retry parked  dead  oldest out/s  in/s state
    > …b/shop/shop.db       3     1     0      0     0       -  96.5  96.5 ok
      ….0.1:9911 shop    1034    12   134   1000    14  1h 12m  12.5   0.0 late
     sqlite┌ Keys ──────────────────────────────────────────────────────────┐───────
    pending│ ↑ ↓  k j   choose; PgUp, PgDn, Home and End go further         │
    dead 0,│ Enter →    look closer: an outbox, then a group of DEAD events │
      DEAD │ Esc ←      back                                                │
    no DEAD│ r          replay the chosen group, after confirmation         │
           │ p          freeze the screen, and resume it                    │
    route  │ ?          this help                                           │ldest
    none is│ q Ctrl-C   quit                                                │
           └ any key closes this ───────────────────────────────────────────┘


     Enter look closer  ? help  q quit
    ");
}

#[test]
fn small_screen_shows_the_most_important_parts() {
    let mut app = both();
    app.char('j');
    assert_snapshot!(screen(&app, 40, 12), @"
     posthaste top: 2 outboxes, 1 12:04:05Z
      outbox         pending  dead state
      …/shop/shop.db       3     0 ok
    > …0.1:9911 shop    1034    14 late
     127.0.0.1:9911 shop ───────────────────
    the oldest pending event that has been
    due was inserted 1h 12m ago: check
    whether an engine runs, which
    destinations are slow, and which routes
    are closed
    the destination cannot be reached: push
     Enter look closer  ? help  q quit
    ");
    assert_snapshot!(screen(&before_a_replay(12), 40, 10), @r#"
    ┌ Replay ──────────────────────────────┐
    │ Send 12 DEAD events out again?       │
    │                                      │
    │ outbox     127.0.0.1:9911 shop       │
    │ type       OrderPlaced               │
    │ aggregate  Order                     │
    │ error      contains "connection      │
    │ refused"                             │
    │ on record  the name of your token    │
    └ y replays, any other key cancels ────┘
    "#);
}

#[test]
fn every_size_can_be_drawn() {
    let apps = [two_sources(), both(), at_the_relay(), in_a_group(), before_a_replay(13)];
    for app in &apps {
        for (width, height) in (0..60).flat_map(|width| (0..20).map(move |height| (width, height))) {
            screen(app, width, height);
        }
    }
}

#[test]
fn colours_only_repeat_the_text() {
    let mut app = at_the_relay();
    app.miss(0, "gone");
    app.key(KeyCode::Esc);
    let coloured = |colours| {
        let buffer = buffer(&app, 80, 24, colours);
        buffer.content.iter().filter(|cell| cell.fg != ratatui::style::Color::Reset).count()
    };
    assert!(coloured(true) > 0);
    assert_eq!(coloured(false), 0);
    let text = |colours| {
        buffer(&app, 80, 24, colours).content.iter().map(|cell| cell.symbol().to_owned()).collect::<String>()
    };
    assert_eq!(text(true), text(false));
}

#[test]
fn control_sequences_are_escaped() {
    const HOSTILE: &str = "x\x1b[2J\u{9b}31m\x1b]0;t\x07\r\nfake\u{202e}\x7f";
    let mut snapshot = troubled();
    for group in &mut snapshot.groups {
        (group.event_type, group.aggregate_type, group.reason) =
            (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
    }
    for route in &mut snapshot.routes {
        route.name = HOSTILE.into();
    }
    for group in snapshot.by_type.groups.iter_mut().chain(&mut snapshot.by_tenant.groups) {
        group.key = Some(HOSTILE.into());
    }
    let mut app = two_sources();
    app.hear(1, Instant::now(), of_relay(snapshot));
    for (source, hostile) in [(0, "store"), (1, "relay")] {
        app.miss(source, &format!("{hostile} {HOSTILE}"));
    }
    app.key(KeyCode::Down);
    let mut screens = vec![screen(&app, 132, 40)];
    app.key(KeyCode::Enter);
    screens.push(screen(&app, 132, 40));
    app.key(KeyCode::Enter);
    let target = app.target().unwrap();
    let mut event = dead_event(1);
    (event.id, event.event_type, event.aggregate_type) = (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
    (event.aggregate_id, event.tenant_id) = (Some(HOSTILE.into()), Some(HOSTILE.into()));
    event.error = Some(HOSTILE.into());
    app.update(Message::Listed { target: target.clone(), result: Ok(vec![event]) });
    screens.push(screen(&app, 132, 40));
    app.char('r');
    app.update(Message::Counted { target: target.clone(), result: Ok(2) });
    screens.push(screen(&app, 132, 40));
    app.char('y');
    app.update(Message::Replayed { target, result: Err(HOSTILE.to_owned()) });
    screens.push(screen(&app, 132, 40));
    for screen in screens {
        assert!(screen.contains(r"x\u{1b}[2J"), "{screen}");
        assert!(!screen.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{screen:?}");
    }
}

#[test]
fn manual_shows_the_screen_as_it_is_drawn() {
    let manual = include_str!("../../../../../../docs/top.md");
    let mut app = both();
    app.char('j');
    for shown in [screen(&app, 80, 21), screen(&before_a_replay(12), 66, 12)] {
        assert!(manual.contains(&shown), "docs/top.md lacks\n{shown}");
    }
}
