//! One outbox: what is wrong with it, its counts, its DEAD events by group, its routes, and what waits.

use posthaste::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};

use super::tables::{groups, routes, waiting};
use super::text::{age, ago, count, or_dash, rate, safe};
use super::theme::{Theme, Tone};
use super::wrap::wrapped;
use crate::commands::top::app::App;
use crate::commands::top::row::{Row, late};
use crate::commands::top::seen::{RouteState, Seen};

/// From here on lists stand side by side.
const WIDE: u16 = 110;

/// Lines that a list needs to be worth its heading.
const LIST: u16 = 3;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    draw_parts(frame, area, app, true, theme);
}

/// Also the lower half of the overview, where nothing can be chosen.
pub(super) fn draw_parts(frame: &mut Frame<'_>, area: Rect, app: &App, chosen: bool, theme: Theme) {
    let Some(row) = app.row() else { return };
    let mut lines = troubles(row, app.now, theme);
    if let Some(seen) = &row.seen {
        lines.extend(counts(row, seen));
    } else if lines.is_empty() {
        lines.push(Line::styled("asking …", theme.style(Tone::Dim)));
    }
    let lines = wrapped(lines, area.width);
    let needed = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let [above, lists] = Layout::vertical([Constraint::Length(needed), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Text::from(lines), above);
    // A heading alone says nothing.
    if let Some(seen) = row.seen.as_ref().filter(|_| lists.height > 1) {
        draw_lists(frame, lists, app, (row, seen), chosen, theme);
    }
}

fn draw_lists(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &App,
    (row, seen): (&Row, &Seen),
    chosen: bool,
    theme: Theme,
) {
    let dead = lines(seen.groups.len());
    let others = lines(seen.routes.len().max(seen.by_type.groups.len()));
    let (dead, others) = match area.height.checked_sub(dead) {
        Some(rest) if rest >= LIST => (dead, others.min(rest)),
        // The lists share what there is; the one to choose from goes first.
        _ if area.height >= 2 * LIST => {
            (area.height - others.min(area.height / 2), others.min(area.height / 2))
        }
        _ => (area.height, 0),
    };
    let [above, below] = Layout::vertical([Constraint::Length(dead), Constraint::Length(others)]).areas(area);
    groups(app, chosen).draw(frame, above, theme);
    let tenants = area.width >= WIDE;
    let width = |shown: bool| Constraint::Fill(u16::from(shown));
    let layout = Layout::horizontal([width(true), width(true), width(tenants)]).spacing(2);
    let [left, middle, right] = layout.areas(below);
    if others > 0 {
        routes(row, seen, theme).draw(frame, left, theme);
        waiting(&seen.by_type, "waiting by type").draw(frame, middle, theme);
    }
    if others > 0 && tenants {
        waiting(&seen.by_tenant, "waiting by tenant").draw(frame, right, theme);
    }
}

/// A heading, the entries or a word that there are none, and a line that keeps lists apart.
fn lines(entries: usize) -> u16 {
    u16::try_from(entries.max(1)).unwrap_or(u16::MAX).saturating_add(2)
}

/// What an operator should know first.
fn troubles(row: &Row, now: Timestamp, theme: Theme) -> Vec<Line<'static>> {
    let bad = |text: String| Line::styled(text, theme.style(Tone::Bad));
    let notice = |text: String| Line::styled(text, theme.style(Tone::Notice));
    let mut lines = Vec::new();
    if let Some((error, since)) = &row.error {
        let before = if row.seen.is_some() { " (below is how it was)" } else { "" };
        lines.push(bad(format!("no answer for {}{before}: {}", ago(Some(*since), now), safe(error))));
    }
    let Some(seen) = &row.seen else { return lines };
    if let Some(finding) = late(&seen.stats) {
        lines.push(bad(format!("{}: {}", finding.what, finding.advice)));
    }
    for (state, words) in [
        (RouteState::Unreachable, "the destination cannot be reached:"),
        (RouteState::Paused, "paused by an operator:"),
    ] {
        let of_state = seen.routes.iter().filter(|route| route.state == state);
        let names: Vec<String> = of_state.map(|route| safe(&route.name)).collect();
        if !names.is_empty() {
            lines.push(notice(format!("{words} {}", names.join(", "))));
        }
    }
    lines
}

fn counts(row: &Row, seen: &Seen) -> [Line<'static>; 2] {
    let (stats, flow) = (&seen.stats, row.flow());
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
