//! View of one outbox: its problems, counts, groups of DEAD events, routes and backlog.

use posthaste::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};

use super::format::{age, ago, count, or_dash, rate, safe};
use super::lists::{backlog, groups, routes};
use super::theme::{Theme, Tone};
use super::wrap::wrapped;
use crate::commands::top::app::App;
use crate::commands::top::outbox_history::{OutboxRow, late};
use crate::commands::top::outbox_snapshot::{OutboxSnapshot, RouteState};

/// Minimum width at which the backlog by tenant is shown.
const MIN_WIDTH_FOR_TENANTS: u16 = 110;

/// Minimum height of a list.
const MIN_LIST_LINES: u16 = 3;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    draw_parts(frame, area, app, true, theme);
}

/// Also draws the lower half of the overview, where nothing can be selected.
pub(super) fn draw_parts(frame: &mut Frame<'_>, area: Rect, app: &App, chosen: bool, theme: Theme) {
    let Some(row) = app.row() else { return };
    let mut lines = troubles(row, app.now, theme);
    if let Some(snapshot) = &row.snapshot {
        lines.extend(counts(row, snapshot));
    } else if lines.is_empty() {
        lines.push(Line::styled("waiting for a reply …", theme.style(Tone::Dim)));
    }
    let lines = wrapped(lines, area.width);
    let needed = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let [above, lists] = Layout::vertical([Constraint::Length(needed), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Text::from(lines), above);
    // A heading without rows is not useful.
    if let Some(snapshot) = row.snapshot.as_ref().filter(|_| lists.height > 1) {
        draw_lists(frame, lists, app, (row, snapshot), chosen, theme);
    }
}

fn draw_lists(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &App,
    (row, snapshot): (&OutboxRow, &OutboxSnapshot),
    chosen: bool,
    theme: Theme,
) {
    let dead = lines(snapshot.groups.len());
    let others = lines(snapshot.routes.len().max(snapshot.by_type.groups.len()));
    let (dead, others) = match area.height.checked_sub(dead) {
        Some(rest) if rest >= MIN_LIST_LINES => (dead, others.min(rest)),
        // The lists share the height; the list with the cursor has priority.
        _ if area.height >= 2 * MIN_LIST_LINES => {
            (area.height - others.min(area.height / 2), others.min(area.height / 2))
        }
        _ => (area.height, 0),
    };
    let [above, below] = Layout::vertical([Constraint::Length(dead), Constraint::Length(others)]).areas(area);
    groups(app, chosen).draw(frame, above, theme);
    let tenants = area.width >= MIN_WIDTH_FOR_TENANTS;
    let width = |shown: bool| Constraint::Fill(u16::from(shown));
    let layout = Layout::horizontal([width(true), width(true), width(tenants)]).spacing(2);
    let [left, middle, right] = layout.areas(below);
    if others > 0 {
        routes(row, snapshot, theme).draw(frame, left, theme);
        backlog(&snapshot.by_type, "waiting by type").draw(frame, middle, theme);
    }
    if others > 0 && tenants {
        backlog(&snapshot.by_tenant, "waiting by tenant").draw(frame, right, theme);
    }
}

/// Lines of a list: the heading, the rows or a note that there are none, and an empty line.
fn lines(entries: usize) -> u16 {
    u16::try_from(entries.max(1)).unwrap_or(u16::MAX).saturating_add(2)
}

/// The problems of the outbox, the most important first.
fn troubles(row: &OutboxRow, now: Timestamp, theme: Theme) -> Vec<Line<'static>> {
    let bad = |text: String| Line::styled(text, theme.style(Tone::Bad));
    let notice = |text: String| Line::styled(text, theme.style(Tone::Notice));
    let mut lines = Vec::new();
    if let Some((error, since)) = &row.error {
        let before = if row.snapshot.is_some() { " (the last state is below)" } else { "" };
        lines.push(bad(format!("no reply for {}{before}: {}", ago(Some(*since), now), safe(error))));
    }
    let Some(snapshot) = &row.snapshot else { return lines };
    if let Some(finding) = late(&snapshot.stats) {
        lines.push(bad(format!("{}: {}", finding.what, finding.advice)));
    }
    for (state, words) in [
        (RouteState::Unreachable, "the destination cannot be reached:"),
        (RouteState::Paused, "paused by an operator:"),
    ] {
        let of_state = snapshot.routes.iter().filter(|route| route.state == state);
        let names: Vec<String> = of_state.map(|route| safe(&route.name)).collect();
        if !names.is_empty() {
            lines.push(notice(format!("{words} {}", names.join(", "))));
        }
    }
    lines
}

fn counts(row: &OutboxRow, snapshot: &OutboxSnapshot) -> [Line<'static>; 2] {
    let (stats, flow) = (&snapshot.stats, row.flow());
    let pending = |events| count(events, stats.estimated.pending);
    [
        Line::from(format!(
            "pending {}: {} due, {} on lease, {} parked, {} scheduled; {} of them retry",
            pending(stats.new + stats.retry),
            pending(stats.due),
            pending(stats.leased),
            pending(stats.parked),
            pending(stats.scheduled),
            pending(stats.retry),
        )),
        Line::from(format!(
            "dead {}, done {}, archived {}; oldest {}; {} out/s, {} in/s",
            count(stats.dead, stats.estimated.dead),
            count(stats.done, stats.estimated.done),
            count(stats.archived, stats.estimated.archived),
            or_dash(stats.oldest_pending.map(age)),
            rate(flow.out),
            rate(flow.into),
        )),
    ]
}
