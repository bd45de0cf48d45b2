//! Draws the screen. Every text from a source goes through [`format::safe`], and payloads and headers are never drawn.

mod dead_group;
mod dialog;
mod format;
mod lists;
mod outbox;
mod overview;

mod theme;
mod wrap;

use posthaste::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use super::app::{App, View};
use super::outbox_history::OutboxState;
use crate::output::moment;
use format::{end_of, safe};

pub(super) use theme::Theme;
use theme::Tone;

/// Below this height the footer has one line, which shows the keys or a message.
const MIN_HEIGHT_FOR_TWO_LINE_FOOTER: u16 = 16;

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let footer = if frame.area().height < MIN_HEIGHT_FOR_TWO_LINE_FOOTER { 1 } else { 2 };
    let layout = Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(footer)]);
    let [bar, body, below] = layout.areas(frame.area());
    draw_bar(frame, bar, app, theme);
    match &app.view {
        View::Overview => overview::draw(frame, body, app, theme),
        View::Outbox => outbox::draw(frame, body, app, theme),
        View::Group(target) => dead_group::draw(frame, body, app, target, theme),
    }
    draw_footer(frame, below, app, theme);
    if let Some(dialog) = &app.dialog {
        dialog::draw(frame, app, dialog, theme);
    }
}

fn draw_bar(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let clock = if app.frozen { "FROZEN, p resumes".to_owned() } else { time_of_day(app.now) };
    let right = Line::styled(format!(" {clock} "), theme.style(Tone::Title));
    let width = u16::try_from(right.width()).unwrap_or(u16::MAX);
    let [left, at_end] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    let place = match app.view {
        View::Overview => place(app),
        View::Outbox | View::Group(_) => end_of(&place(app), usize::from(left.width).saturating_sub(1)),
    };
    frame.render_widget(Line::styled(format!(" {place}"), theme.style(Tone::Title)), left);
    frame.render_widget(right, at_end);
}

fn time_of_day(now: Timestamp) -> String {
    moment(now).split_once('T').map_or_else(String::new, |(_, time)| time.to_owned())
}

/// The path to the current view.
fn place(app: &App) -> String {
    let outbox = || app.row().map_or_else(String::new, |row| safe(&row.label));
    match &app.view {
        View::Overview => format!("posthaste top: {}", summary(app)),
        View::Outbox => format!("posthaste top > {}", outbox()),
        View::Group(target) => format!("posthaste top > {} > {}", outbox(), safe(&target.group.event_type)),
    }
}

/// A summary such as `3 outboxes, 1 late, 1 no reply`.
fn summary(app: &App) -> String {
    let outboxes = match app.rows.len() {
        1 => "1 outbox".to_owned(),
        n => format!("{n} outboxes"),
    };
    let states = [
        OutboxState::Silent,
        OutboxState::Late,
        OutboxState::Unreachable,
        OutboxState::Dead,
        OutboxState::Paused,
    ];
    let counted = states.into_iter().filter_map(|state| {
        let count = app.rows.iter().filter(|row| row.state() == state).count();
        (count > 0).then(|| format!("{count} {}", state.word()))
    });
    std::iter::once(outboxes).chain(counted).collect::<Vec<_>>().join(", ")
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let status_message = status_message(app, theme);
    let lines = match (area.height, status_message) {
        (0..=1, Some(status_message)) => vec![status_message],
        (0..=1, None) => vec![hints(app, theme)],
        (_, status_message) => vec![status_message.unwrap_or_default(), hints(app, theme)],
    };
    frame.render_widget(ratatui::text::Text::from(lines), area);
}

fn status_message(app: &App, theme: Theme) -> Option<Line<'static>> {
    if let Some((done, of)) = app.replaying {
        return Some(Line::styled(format!(" replaying: {done} of {of}"), theme.style(Tone::Notice)));
    }
    let status_message = app.status_message.as_ref()?;
    let tone = if status_message.is_error { Tone::Bad } else { Tone::Good };
    Some(Line::styled(format!(" {}", safe(&status_message.text)), theme.style(tone)))
}

fn hints(app: &App, theme: Theme) -> Line<'static> {
    let hints: &[(&str, &str)] = match app.view {
        View::Overview => &[("Enter", "look closer"), ("?", "help"), ("q", "quit")],
        View::Outbox => &[
            ("Enter", "events of the group"),
            ("r", "replay it"),
            ("Esc", "back"),
            ("?", "help"),
            ("q", "quit"),
        ],
        View::Group(_) => &[("r", "replay the group"), ("Esc", "back"), ("?", "help"), ("q", "quit")],
    };
    let spans = hints.iter().flat_map(|(key, what)| {
        [Span::styled(format!(" {key}"), theme.style(Tone::Strong)), Span::raw(format!(" {what} "))]
    });
    Line::from(spans.collect::<Vec<_>>())
}
