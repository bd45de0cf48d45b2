//! Key bindings: each key has its effect, and only `y` starts a replay.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tokio::time::Instant;

use super::support::{at_the_relay, both, dead_event, dead_group, of_relay, refused, troubled, two_sources};
use crate::commands::top::app::{App, Dialog, Effect, Message, View};

fn status_text(app: &App) -> &str {
    app.status_message.as_ref().map_or("", |message| &message.text)
}

#[test]
fn enter_goes_down_to_the_events_of_a_group_and_escape_goes_back() {
    let mut app = both();
    assert_eq!(app.key(KeyCode::Down), None);
    assert_eq!(app.key(KeyCode::Enter), None);
    assert_eq!(app.view, View::Outbox);
    assert_eq!(app.key(KeyCode::Enter), Some(Effect::List(refused())));
    assert_eq!(app.view, View::Group(refused()));
    assert_eq!(app.key(KeyCode::Enter), None);
    app.key(KeyCode::Esc);
    assert_eq!(app.view, View::Outbox);
    app.key(KeyCode::Esc);
    app.key(KeyCode::Esc);
    assert_eq!(app.view, View::Overview);
}

#[test]
fn every_key_that_quits_quits_from_everywhere() {
    let interrupt = || Message::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    for keys in ["", "\n", "\n\n", "?", "\nr"] {
        let mut app = at_the_relay();
        app.key(KeyCode::Esc);
        for key in keys.chars() {
            app.key(if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) });
        }
        if app.dialog.is_none() {
            assert_eq!(app.char('q'), Some(Effect::Quit), "{keys:?}");
        }
        assert_eq!(app.update(interrupt()), Some(Effect::Quit), "{keys:?}");
    }
}

#[test]
fn replay_is_counted_then_asked_for_then_done() {
    let mut app = at_the_relay();
    assert_eq!(app.char('r'), Some(Effect::Count(refused())));
    assert_eq!(app.update(Message::Counted { target: refused(), result: Ok(12) }), None);
    assert_eq!(app.dialog, Some(Dialog::Confirm { target: refused(), count: 12, in_group: Some(12) }));
    assert_eq!(app.char('y'), Some(Effect::Replay(refused(), 12)));
    app.update(Message::Replaying(5));
    assert_eq!(app.replaying, Some((5, 12)));
    assert_eq!(app.char('r'), None, "one at a time");
    assert!(status_text(&app).contains("a replay is running"));
    let over = app.update(Message::Replayed { target: refused(), result: Ok(12) });
    assert_eq!(over, Some(Effect::Observe(1)));
    assert_eq!(status_text(&app), "12 events replayed, on record as the name of your token");
}

#[test]
fn nothing_but_y_replays() {
    for key in [
        KeyCode::Char('Y'),
        KeyCode::Char('n'),
        KeyCode::Char('r'),
        KeyCode::Char('q'),
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Char(' '),
    ] {
        let mut app = at_the_relay();
        app.char('r');
        app.update(Message::Counted { target: refused(), result: Ok(12) });
        assert_eq!(app.key(key), None, "{key:?}");
        assert_eq!((app.dialog.clone(), status_text(&app)), (None, "nothing was replayed"), "{key:?}");
        assert_eq!(app.char('y'), None, "the dialog is closed");
    }
}

#[test]
fn y_before_the_count_is_known_does_not_replay() {
    let mut app = at_the_relay();
    app.char('r');
    assert_eq!(app.char('y'), None);
    assert_eq!(app.update(Message::Counted { target: refused(), result: Ok(12) }), None);
    assert_eq!(app.dialog, None, "a closed dialog does not open again");
    assert_eq!(app.char('y'), None);
}

#[test]
fn group_that_cannot_be_counted_is_not_replayed() {
    let mut app = at_the_relay();
    app.char('r');
    app.update(Message::Counted { target: refused(), result: Err("no right".to_owned()) });
    assert_eq!((app.dialog.clone(), app.char('y')), (None, None));
    assert!(status_text(&app).ends_with("the events cannot be counted: no right"), "{}", status_text(&app));
    app.char('r');
    app.update(Message::Counted { target: refused(), result: Ok(0) });
    assert_eq!(app.dialog, None);
    assert!(status_text(&app).starts_with("nothing to replay"));
}

#[test]
fn replay_that_stops_reports_its_progress() {
    let mut app = at_the_relay();
    app.char('r');
    app.update(Message::Counted { target: refused(), result: Ok(1200) });
    app.char('y');
    app.update(Message::Replaying(500));
    app.update(Message::Replayed { target: refused(), result: Err("the relay is gone".to_owned()) });
    assert_eq!(status_text(&app), "the replay stopped after 500 events: the relay is gone");
    assert_eq!(app.replaying, None);
}

#[test]
fn cursor_stays_on_its_group_when_another_grows() {
    let mut app = at_the_relay();
    app.char('j');
    let paid = app.target().unwrap();
    assert_eq!(paid.group.event_type, "OrderPaid");
    let mut grown = troubled();
    grown.groups = vec![
        dead_group(90, "OrderPaid", "the order names no item"),
        dead_group(50, "OrderLost", "new"),
        dead_group(12, "OrderPlaced", "connection refused"),
    ];
    app.hear(1, Instant::now(), of_relay(grown.clone()));
    assert_eq!(app.target().unwrap(), paid);
    grown.groups.remove(0);
    app.hear(1, Instant::now(), of_relay(grown));
    assert_eq!(app.target().unwrap().group.event_type, "OrderLost", "the group is gone, so the index counts");
}

#[test]
fn replay_needs_a_group_that_is_chosen() {
    let mut app = both();
    assert_eq!(app.char('r'), None);
    assert!(status_text(&app).contains("press Enter"));
    app.key(KeyCode::Enter);
    assert_eq!(app.char('r'), None, "the store has no DEAD events");
    assert_eq!(status_text(&app), "this outbox has no DEAD events");
    let mut empty = two_sources();
    for key in ['r', 'j', 'k', '\n'] {
        empty.char(key);
    }
    empty.key(KeyCode::Enter);
    assert_eq!((empty.char('r'), empty.key(KeyCode::Enter)), (None, None));
}

#[test]
fn events_of_a_group_are_listed_again_with_every_observation() {
    let mut app = at_the_relay();
    app.key(KeyCode::Enter);
    app.update(Message::Listed { target: refused(), result: Ok(vec![dead_event(1), dead_event(2)]) });
    app.char('j');
    assert_eq!(app.hear(1, Instant::now(), of_relay(troubled())), Some(Effect::List(refused())));
    assert_eq!(app.hear(1, Instant::now(), of_relay(troubled())), None, "no second request before the reply");
    app.update(Message::Listed { target: refused(), result: Ok(vec![dead_event(2)]) });
    assert_eq!((app.event.at(), app.listed_ids().len()), (0, 1));
    app.key(KeyCode::Esc);
    assert_eq!(app.hear(1, Instant::now(), of_relay(troubled())), None);
    app.update(Message::Listed { target: refused(), result: Ok(Vec::new()) });
    assert_eq!(app.listed_ids().len(), 1, "a late reply is ignored");
}

#[test]
fn frozen_screen_ignores_observations() {
    let mut app = both();
    app.char('p');
    app.hear(0, Instant::now(), Vec::new());
    assert_eq!(app.rows.len(), 2);
    app.char('p');
    app.hear(0, Instant::now(), Vec::new());
    assert_eq!(app.rows.len(), 1);
}
