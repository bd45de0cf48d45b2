//! Lists in the view of an outbox: groups of DEAD events, routes, and the backlog.

use posthaste::admin::Backlog;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row as TableRow, Table, TableState};

use super::format::{age, ago, count, or_dash, rate, safe};
use super::theme::{Theme, Tone};
use crate::commands::top::app::App;
use crate::commands::top::outbox_history::OutboxRow;
use crate::commands::top::outbox_snapshot::{OutboxSnapshot, RouteState};

/// A list with a heading over each column.
pub(super) struct List<'a> {
    pub(super) headings: Vec<(&'static str, Constraint, Alignment)>,
    pub(super) rows: Vec<TableRow<'a>>,
    /// Shown if the list is empty.
    pub(super) empty: &'static str,
    /// Index of the selected row, if the cursor is in this list.
    pub(super) chosen: Option<usize>,
}

/// Alignments of columns.
pub(super) const LEFT: Alignment = Alignment::Left;
pub(super) const RIGHT: Alignment = Alignment::Right;

impl List<'_> {
    pub(super) fn draw(self, frame: &mut Frame<'_>, area: Rect, theme: Theme) {
        let heading =
            self.headings.iter().map(|(name, _, side)| Cell::from(Line::from(*name).alignment(*side)));
        let heading = TableRow::new(heading).style(theme.style(Tone::Strong));
        let widths: Vec<Constraint> = self.headings.iter().map(|(_, width, _)| *width).collect();
        let is_empty = self.rows.is_empty();
        let table = Table::new(self.rows, widths)
            .header(heading)
            .column_spacing(1)
            .highlight_symbol(if self.chosen.is_some() { "> " } else { "" })
            .row_highlight_style(theme.style(Tone::Chosen));
        let mut state = TableState::new().with_selected(self.chosen.filter(|_| !is_empty));
        frame.render_stateful_widget(table, area, &mut state);
        if is_empty && area.height > 1 {
            let below = Rect { y: area.y + 1, height: 1, ..area };
            frame.render_widget(Text::styled(self.empty, theme.style(Tone::Dim)), below);
        }
    }
}

/// A right-aligned cell.
pub(super) fn right_aligned<'a>(text: String) -> Cell<'a> {
    Cell::from(Line::from(text).alignment(RIGHT))
}

pub(super) fn groups<'a>(app: &App, chosen: bool) -> List<'a> {
    let rows = app.dead_groups().iter().map(|group| {
        TableRow::new([
            right_aligned(count(group.count, false)),
            Cell::from(safe(&format!("{}:{}", group.aggregate_type, group.event_type))),
            right_aligned(ago(group.last, app.now)),
            Cell::from(if group.reason.is_empty() { "-".to_owned() } else { safe(&group.reason) }),
        ])
    });
    List {
        headings: vec![
            ("DEAD", Constraint::Length(6), RIGHT),
            ("type", Constraint::Fill(2), LEFT),
            ("last", Constraint::Length(7), RIGHT),
            ("reason", Constraint::Fill(3), LEFT),
        ],
        rows: rows.collect(),
        empty: "no DEAD events",
        chosen: chosen.then(|| app.group.at()),
    }
}

pub(super) fn routes<'a>(row: &OutboxRow, snapshot: &OutboxSnapshot, theme: Theme) -> List<'a> {
    let rows = snapshot.routes.iter().map(|route| {
        let tone = match route.state {
            RouteState::Open => Tone::Good,
            RouteState::Paused | RouteState::Unreachable | RouteState::Closed => Tone::Notice,
        };
        TableRow::new([
            Cell::from(safe(&route.name)),
            Cell::from(route.state.word()).style(theme.style(tone)),
            right_aligned(or_dash(
                route.parked.map(|parked| count(parked, snapshot.stats.estimated.pending)),
            )),
            right_aligned(rate(row.calls(route))),
        ])
    });
    List {
        headings: vec![
            ("route", Constraint::Fill(1), LEFT),
            ("state", Constraint::Length(11), LEFT),
            ("parked", Constraint::Length(6), RIGHT),
            ("calls/s", Constraint::Length(7), RIGHT),
        ],
        rows: rows.collect(),
        empty: "none is paused",
        chosen: None,
    }
}

pub(super) fn backlog<'a>(backlog: &Backlog, heading: &'static str) -> List<'a> {
    let rows = backlog.groups.iter().map(|group| {
        TableRow::new([
            Cell::from(or_dash(group.key.as_deref().map(safe))),
            right_aligned(count(group.count, !backlog.complete)),
            right_aligned(or_dash(group.oldest.map(age))),
        ])
    });
    List {
        headings: vec![
            (heading, Constraint::Fill(1), LEFT),
            ("events", Constraint::Length(6), RIGHT),
            ("oldest", Constraint::Length(7), RIGHT),
        ],
        rows: rows.collect(),
        empty: "no pending events",
        chosen: None,
    }
}
