//! What becomes of the outboxes of a source as its answers change.

use std::time::Duration;

use tokio::time::Instant;

use super::kit::{both, of_relay, of_store, troubled, two_sources, well};
use crate::commands::top::row::{Flow, State};
use crate::commands::top::seen::{Look, RouteState};

#[test]
fn source_that_falls_silent_keeps_what_it_was_and_comes_back() {
    let mut app = both();
    app.miss(1, "the relay cannot be reached");
    let silent = &app.rows[1];
    assert_eq!((silent.state(), silent.flow()), (State::Silent, Flow::default()));
    assert_eq!(silent.seen.as_ref().unwrap().stats.dead, 14);
    assert_eq!(app.rows[0].state(), State::Well, "the other goes on");
    app.hear(1, Instant::now(), of_relay(well()));
    assert_eq!((app.rows[1].state(), &app.rows[1].error), (State::Well, &None));
    assert_eq!(app.rows[1].flow(), Flow::default(), "a gap is not compared with what was before it");
}

#[test]
fn outboxes_of_a_relay_come_and_go_with_its_configuration() {
    let mut app = two_sources();
    let look = |name: &str| Look { outbox: Some(name.to_owned()), seen: Ok(well()) };
    let labels = |app: &crate::commands::top::app::App| -> Vec<String> {
        app.rows.iter().map(|row| row.label.clone()).collect()
    };
    app.hear(1, Instant::now(), vec![look("b"), look("c")]);
    assert_eq!(labels(&app)[1..], ["127.0.0.1:9911 b", "127.0.0.1:9911 c"]);
    app.key(crossterm::event::KeyCode::End);
    app.hear(1, Instant::now(), vec![look("a"), look("b"), look("c")]);
    assert_eq!(app.row().unwrap().label, "127.0.0.1:9911 c", "the cursor goes with its outbox");
    app.hear(1, Instant::now(), Vec::new());
    app.hear(0, Instant::now(), of_store(well()));
    assert_eq!(labels(&app), ["sqlite:///var/lib/shop/shop.db"]);
    app.hear(1, Instant::now(), vec![look("a")]);
    app.hear(0, Instant::now(), Vec::new());
    app.miss(0, "gone");
    assert_eq!(labels(&app), ["sqlite:///var/lib/shop/shop.db", "127.0.0.1:9911 a"]);
}

#[test]
fn outbox_that_its_relay_cannot_open_hides_no_other() {
    let mut app = two_sources();
    let broken = Look { outbox: Some("bills".to_owned()), seen: Err("not open".to_owned()) };
    app.hear(1, Instant::now(), [of_relay(well()), vec![broken]].concat());
    let states: Vec<State> = app.rows.iter().map(super::super::row::Row::state).collect();
    assert_eq!(states, [State::Asking, State::Well, State::Silent]);
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let (mut app, start) = (two_sources(), Instant::now());
    let mut seen = well();
    for second in 0..60 {
        // It gets faster after half a minute.
        seen.stats.done += if second < 30 { 10 } else { 50 };
        app.hear(0, start + Duration::from_secs(second), of_store(seen.clone()));
    }
    assert_eq!(app.rows[0].flow(), Flow { out: Some(50.0), into: Some(50.0) });
}

#[test]
fn relay_that_was_restarted_makes_no_rate_below_zero() {
    let (mut app, start) = (two_sources(), Instant::now());
    let mut seen = troubled();
    (seen.delivered, seen.routes[0].calls) = (Some(500), Some(500));
    app.hear(1, start, of_relay(seen.clone()));
    (seen.delivered, seen.routes[0].calls) = (Some(3), Some(3));
    app.hear(1, start + Duration::from_secs(1), of_relay(seen));
    let row = &app.rows[1];
    assert_eq!(row.flow().out, Some(0.0), "the counts of rows tell");
    assert_eq!(row.calls(&row.seen.as_ref().unwrap().routes[0]), None);
}

#[test]
fn worst_that_is_true_is_the_state() {
    let mut app = two_sources();
    let mut state = |change: &dyn Fn(&mut crate::commands::top::seen::Seen)| {
        let mut seen = well();
        change(&mut seen);
        app.hear(0, Instant::now(), of_store(seen));
        app.rows[0].state()
    };
    assert_eq!(state(&|_| {}), State::Well);
    assert_eq!(
        state(&|seen| seen.routes = vec![super::kit::route("m", RouteState::Paused, 0)]),
        State::Paused
    );
    assert_eq!(state(&|seen| seen.stats.dead = 1), State::Dead);
    assert_eq!(state(&|seen| *seen = troubled()), State::Late);
    assert_eq!(
        state(&|seen| {
            *seen = troubled();
            seen.stats.oldest_pending = Some(Duration::from_secs(299));
        }),
        State::Unreachable
    );
}
