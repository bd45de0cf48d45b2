//! Rows of a source when its observations change or fail.

use std::time::Duration;

use tokio::time::Instant;

use super::support::{both, of_relay, of_store, troubled, two_sources, well};
use crate::commands::top::outbox_history::{Flow, OutboxState};
use crate::commands::top::outbox_snapshot::{Observation, RouteState};

#[test]
fn source_that_stops_responding_keeps_its_snapshot_and_recovers() {
    let mut app = both();
    app.miss(1, "the relay cannot be reached");
    let silent = &app.rows[1];
    assert_eq!((silent.state(), silent.flow()), (OutboxState::Silent, Flow::default()));
    assert_eq!(silent.snapshot.as_ref().unwrap().stats.dead, 14);
    assert_eq!(app.rows[0].state(), OutboxState::Well, "the other source is unaffected");
    app.hear(1, Instant::now(), of_relay(well()));
    assert_eq!((app.rows[1].state(), &app.rows[1].error), (OutboxState::Well, &None));
    assert_eq!(app.rows[1].flow(), Flow::default(), "a gap is not compared with what was before it");
}

#[test]
fn outboxes_of_a_relay_come_and_go_with_its_configuration() {
    let mut app = two_sources();
    let observation = |name: &str| Observation { outbox: Some(name.to_owned()), snapshot: Ok(well()) };
    let labels = |app: &crate::commands::top::app::App| -> Vec<String> {
        app.rows.iter().map(|row| row.label.clone()).collect()
    };
    app.hear(1, Instant::now(), vec![observation("b"), observation("c")]);
    assert_eq!(labels(&app)[1..], ["127.0.0.1:9911 b", "127.0.0.1:9911 c"]);
    app.key(crossterm::event::KeyCode::End);
    app.hear(1, Instant::now(), vec![observation("a"), observation("b"), observation("c")]);
    assert_eq!(app.row().unwrap().label, "127.0.0.1:9911 c", "the cursor moves with its outbox");
    app.hear(1, Instant::now(), Vec::new());
    app.hear(0, Instant::now(), of_store(well()));
    assert_eq!(labels(&app), ["sqlite:///var/lib/shop/shop.db"]);
    app.hear(1, Instant::now(), vec![observation("a")]);
    app.hear(0, Instant::now(), Vec::new());
    app.miss(0, "gone");
    assert_eq!(labels(&app), ["sqlite:///var/lib/shop/shop.db", "127.0.0.1:9911 a"]);
}

#[test]
fn outbox_that_its_relay_cannot_open_does_not_hide_the_others() {
    let mut app = two_sources();
    let broken = Observation { outbox: Some("bills".to_owned()), snapshot: Err("not open".to_owned()) };
    app.hear(1, Instant::now(), [of_relay(well()), vec![broken]].concat());
    let states: Vec<OutboxState> =
        app.rows.iter().map(super::super::outbox_history::OutboxRow::state).collect();
    assert_eq!(states, [OutboxState::Asking, OutboxState::Well, OutboxState::Silent]);
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let (mut app, start) = (two_sources(), Instant::now());
    let mut snapshot = well();
    for second in 0..60 {
        // The rate rises after half a minute.
        snapshot.stats.done += if second < 30 { 10 } else { 50 };
        app.hear(0, start + Duration::from_secs(second), of_store(snapshot.clone()));
    }
    assert_eq!(app.rows[0].flow(), Flow { out: Some(50.0), into: Some(50.0) });
}

#[test]
fn restarted_relay_gives_no_negative_rate() {
    let (mut app, start) = (two_sources(), Instant::now());
    let mut snapshot = troubled();
    (snapshot.delivered, snapshot.routes[0].calls) = (Some(500), Some(500));
    app.hear(1, start, of_relay(snapshot.clone()));
    (snapshot.delivered, snapshot.routes[0].calls) = (Some(3), Some(3));
    app.hear(1, start + Duration::from_secs(1), of_relay(snapshot));
    let row = &app.rows[1];
    assert_eq!(row.flow().out, Some(0.0), "computed from the counts of rows");
    assert_eq!(row.calls(&row.snapshot.as_ref().unwrap().routes[0]), None);
}

#[test]
fn state_is_the_worst_that_applies() {
    let mut app = two_sources();
    let mut state = |change: &dyn Fn(&mut crate::commands::top::outbox_snapshot::OutboxSnapshot)| {
        let mut snapshot = well();
        change(&mut snapshot);
        app.hear(0, Instant::now(), of_store(snapshot));
        app.rows[0].state()
    };
    assert_eq!(state(&|_| {}), OutboxState::Well);
    assert_eq!(
        state(&|snapshot| snapshot.routes = vec![super::support::route("m", RouteState::Paused, 0)]),
        OutboxState::Paused
    );
    assert_eq!(state(&|snapshot| snapshot.stats.dead = 1), OutboxState::Dead);
    assert_eq!(state(&|snapshot| *snapshot = troubled()), OutboxState::Late);
    assert_eq!(
        state(&|snapshot| {
            *snapshot = troubled();
            snapshot.stats.oldest_pending = Some(Duration::from_secs(299));
        }),
        OutboxState::Unreachable
    );
}
