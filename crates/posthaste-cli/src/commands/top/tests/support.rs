//! Apps for tests, and what they draw.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use posthaste::Timestamp;
use posthaste::admin::{Backlog, BacklogGroup, DeadGroup, Stats};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use tokio::time::Instant;

use crate::commands::top::app::{App, Effect, Message, ReplayTarget, SourceInfo};
use crate::commands::top::draw::{Theme, draw};
use crate::commands::top::outbox_snapshot::{
    DeadEvent, DeadGroupKey, Observation, OutboxSnapshot, RouteSnapshot, RouteState,
};

/// 2020-01-02T12:04:05Z.
pub(super) fn now() -> Timestamp {
    Timestamp::from_micros(1_577_966_645_000_000)
}

fn ago(seconds: u64) -> Option<Timestamp> {
    Some(now() - Duration::from_secs(seconds))
}

/// A store and a relay, which have not replied yet.
pub(super) fn two_sources() -> App {
    let info = |label: &str, actor: &str| SourceInfo { label: label.to_owned(), actor: actor.to_owned() };
    let store = info("sqlite:///var/lib/shop/shop.db", "cli:ann");
    App::new(vec![store, info("127.0.0.1:9911", "the name of your token")], now())
}

/// An outbox without problems.
pub(super) fn well() -> OutboxSnapshot {
    let nothing = || Backlog::new(Vec::new(), true);
    let mut stats = Stats::default();
    (stats.new, stats.due, stats.leased, stats.done) = (3, 1, 2, 1200);
    OutboxSnapshot {
        stats,
        routes: Vec::new(),
        by_type: nothing(),
        by_tenant: nothing(),
        groups: Vec::new(),
        delivered: None,
    }
}

pub(super) fn dead_group(count: u64, event_type: &str, reason: &str) -> DeadGroup {
    DeadGroup::new("Order".to_owned(), event_type.to_owned(), reason.to_owned()).with_deaths(
        count,
        ago(7_200),
        ago(185),
    )
}

pub(super) fn route(name: &str, state: RouteState, parked: u64) -> RouteSnapshot {
    RouteSnapshot { name: name.to_owned(), state, parked: Some(parked), calls: Some(0) }
}

/// An outbox that needs attention.
pub(super) fn troubled() -> OutboxSnapshot {
    let oldest = Some(Duration::from_secs(4_320));
    let waiting = |key: Option<&str>, count| BacklogGroup::new(key.map(str::to_owned), count, oldest);
    let mut stats = Stats::default();
    (stats.new, stats.retry) = (900, 134);
    (stats.due, stats.leased, stats.parked, stats.scheduled) = (12, 2, 1000, 20);
    (stats.dead, stats.done) = (14, 98_765);
    stats.oldest_pending = Some(Duration::from_secs(4_320));
    stats.paused = ["mail".to_owned()].into();
    OutboxSnapshot {
        stats,
        routes: vec![
            route("orders", RouteState::Open, 0),
            route("mail", RouteState::Paused, 400),
            route("push", RouteState::Unreachable, 600),
        ],
        by_type: Backlog::new(
            vec![waiting(Some("Order:OrderPlaced"), 1000), waiting(Some("Mail:MailSent"), 34)],
            true,
        ),
        by_tenant: Backlog::new(vec![waiting(Some("acme"), 1034)], true),
        groups: vec![
            dead_group(12, "OrderPlaced", "connection refused"),
            dead_group(2, "OrderPaid", "the order names no item"),
        ],
        delivered: Some(0),
    }
}

pub(super) fn dead_event(n: usize) -> DeadEvent {
    DeadEvent {
        id: format!("0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e{n:02}"),
        event_type: "OrderPlaced".to_owned(),
        aggregate_type: "Order".to_owned(),
        aggregate_id: Some(format!("o-{n}")),
        tenant_id: Some("acme".to_owned()),
        attempts: 10,
        replays: 1,
        died: ago(185),
        error: Some("connection refused (os error 111)".to_owned()),
    }
}

pub(super) fn of_store(snapshot: OutboxSnapshot) -> Vec<Observation> {
    vec![Observation { outbox: None, snapshot: Ok(snapshot) }]
}

pub(super) fn of_relay(snapshot: OutboxSnapshot) -> Vec<Observation> {
    vec![Observation { outbox: Some("shop".to_owned()), snapshot: Ok(snapshot) }]
}

impl App {
    /// A source replies.
    pub(super) fn hear(
        &mut self,
        source: usize,
        at: Instant,
        observations: Vec<Observation>,
    ) -> Option<Effect> {
        self.update(Message::Observed { source, at, result: Ok(observations) })
    }

    /// A source does not respond.
    pub(super) fn miss(&mut self, source: usize, error: &str) {
        self.update(Message::Observed { source, at: Instant::now(), result: Err(error.to_owned()) });
    }

    pub(super) fn key(&mut self, code: KeyCode) -> Option<Effect> {
        self.update(Message::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    pub(super) fn char(&mut self, c: char) -> Option<Effect> {
        self.key(KeyCode::Char(c))
    }
}

/// Both sources have replied twice, and the outbox of the relay has problems.
pub(super) fn both() -> App {
    let (mut app, then) = (two_sources(), Instant::now());
    let later = then + Duration::from_secs(2);
    app.hear(0, then, of_store(well()));
    let mut more = well();
    more.stats.done += 193;
    app.hear(0, later, of_store(more));
    app.hear(1, then, of_relay(troubled()));
    let mut more = troubled();
    more.delivered = Some(25);
    more.routes[0].calls = Some(31);
    app.hear(1, later, of_relay(more));
    app
}

/// The user has opened the outbox of the relay.
pub(super) fn at_the_relay() -> App {
    let mut app = both();
    app.key(KeyCode::Down);
    app.key(KeyCode::Enter);
    app
}

/// The group whose reason is a refused connection.
pub(super) fn refused() -> ReplayTarget {
    ReplayTarget { source: 1, group: DeadGroupKey::of(Some("shop".to_owned()), &troubled().groups[0]) }
}

pub(super) fn buffer(app: &App, width: u16, height: u16, colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, Theme { colours })).unwrap();
    terminal.backend().buffer().clone()
}

/// The screen, without trailing spaces.
pub(super) fn screen(app: &App, width: u16, height: u16) -> String {
    let buffer = buffer(app, width, height, true);
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}
