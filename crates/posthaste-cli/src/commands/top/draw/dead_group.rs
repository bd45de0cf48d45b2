//! View of a group of DEAD events: the list, and details of the selected event without its payload.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Cell, Row as TableRow};

use super::format::{ago, safe};
use super::lists::{LEFT, List, RIGHT, right_aligned};
use super::theme::{Theme, Tone};
use super::wrap::wrapped;
use crate::commands::top::app::{App, ReplayTarget};
use crate::commands::top::outbox_snapshot::DeadEvent;
use crate::commands::top::outbox_snapshot::MAX_LISTED_EVENTS;
use crate::output::{moment, or_dash};

/// Lines of the details.
const EVENT_DETAIL_LINES: u16 = 8;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, target: &ReplayTarget, theme: Theme) {
    let about = if area.height >= 2 * EVENT_DETAIL_LINES { EVENT_DETAIL_LINES } else { area.height / 2 };
    let layout = Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(about)]);
    let [above, middle, below] = layout.areas(area);
    let group = &target.group;
    let heading = format!("DEAD {}:{}, the oldest first", group.aggregate_type, group.event_type);
    frame.render_widget(Line::styled(safe(&heading), theme.style(Tone::Strong)), above);
    match &app.listed {
        None => frame.render_widget(Text::styled("waiting for a reply …", theme.style(Tone::Dim)), middle),
        Some(Err(error)) => {
            let line = Line::styled(format!("no reply: {}", safe(error)), theme.style(Tone::Bad));
            frame.render_widget(Text::from(wrapped([line], middle.width)), middle);
        }
        Some(Ok(events)) => {
            list(app, events).draw(frame, middle, theme);
            if let Some(event) = events.get(app.event.at()) {
                draw_event(frame, below, event, theme);
            }
        }
    }
}

fn list<'a>(app: &App, events: &[DeadEvent]) -> List<'a> {
    let rows = events.iter().map(|event| {
        TableRow::new([
            Cell::from(safe(&event.id)),
            right_aligned(ago(event.died, app.now)),
            right_aligned(event.attempts.to_string()),
            Cell::from(event.error.as_deref().map_or_else(|| "-".to_owned(), safe)),
        ])
    });
    let more = TableRow::new([Cell::from("… and perhaps more")]);
    let more = (events.len() >= MAX_LISTED_EVENTS).then_some(more);
    List {
        headings: vec![
            ("id", Constraint::Max(36), LEFT),
            ("died", Constraint::Length(7), RIGHT),
            ("tries", Constraint::Length(5), RIGHT),
            ("error", Constraint::Fill(1), LEFT),
        ],
        rows: rows.chain(more).collect(),
        empty: "none of them is DEAD any more",
        chosen: Some(app.event.at()),
    }
}

fn draw_event(frame: &mut Frame<'_>, area: Rect, event: &DeadEvent, theme: Theme) {
    let block = Block::new().borders(Borders::TOP).title(format!(" {} ", safe(&event.id)));
    let aggregate = match &event.aggregate_id {
        Some(id) => format!("{} {id}", event.aggregate_type),
        None => event.aggregate_type.clone(),
    };
    let tenant = event.tenant_id.as_ref().map(|tenant| format!(" of tenant {tenant}")).unwrap_or_default();
    let replays = match event.replays {
        0 => String::new(),
        1 => ", replayed once before".to_owned(),
        n => format!(", replayed {n} times before"),
    };
    let died = or_dash(event.died.map(moment));
    let lines = [
        Line::from(safe(&format!("{} of {aggregate}{tenant}", event.event_type))),
        Line::from(format!("died at {died} after {} tries{replays}", event.attempts)),
        Line::styled(safe(event.error.as_deref().unwrap_or("without an error")), theme.style(Tone::Notice)),
    ];
    frame.render_widget(Text::from(wrapped(lines, area.width)), block.inner(area));
    frame.render_widget(block, area);
}
