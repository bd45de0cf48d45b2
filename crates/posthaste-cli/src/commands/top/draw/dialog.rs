//! Dialogs: the question before a replay, and the help.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Padding};

use super::format::safe;
use super::theme::{Theme, Tone};
use super::wrap::wrapped;
use crate::commands::top::app::{App, Dialog, ReplayTarget};
use crate::commands::top::keys::KEY_HELP;
use crate::output::{cut, events};

/// Maximum width of a dialog.
const MAX_DIALOG_WIDTH: u16 = 66;

/// Characters of the reason that the question shows.
const MAX_REASON_CHARS: usize = 120;

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, dialog: &Dialog, theme: Theme) {
    let (title, lines, keys) = match dialog {
        Dialog::Help => ("Keys", help(), "any key closes this"),
        Dialog::Counting(target) => ("Replay", counting(app, target), "any key cancels"),
        Dialog::Confirm { target, count, in_group } => {
            ("Replay", question(app, target, *count, *in_group, theme), "y replays, any other key cancels")
        }
    };
    let block = Block::bordered()
        .title(Span::styled(format!(" {title} "), theme.style(Tone::Strong)))
        .title_bottom(Span::styled(format!(" {keys} "), theme.style(Tone::Strong)))
        .padding(Padding::horizontal(1));
    let width = MAX_DIALOG_WIDTH.min(frame.area().width);
    let lines = wrapped(lines, width.saturating_sub(4));
    let needed = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let area = in_the_middle(frame.area(), width, needed.saturating_add(2));
    frame.render_widget(Clear, area);
    frame.render_widget(Text::from(lines), block.inner(area));
    frame.render_widget(block, area);
}

fn in_the_middle(area: Rect, width: u16, height: u16) -> Rect {
    let [area] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(area);
    let [area] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(area);
    area
}

fn help() -> Vec<Line<'static>> {
    let line = |&(keys, what): &(&'static str, &'static str)| Line::from(format!("{keys:<10} {what}"));
    KEY_HELP.iter().map(line).collect()
}

fn counting(app: &App, target: &ReplayTarget) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from("Counting the events that would be replayed …"), Line::default()];
    lines.extend(facts(app, target));
    lines
}

/// Says exactly what a replay would do. The most important part comes first, because a small terminal shows no more.
fn question(
    app: &App,
    target: &ReplayTarget,
    count: u64,
    in_group: Option<u64>,
    theme: Theme,
) -> Vec<Line<'static>> {
    let ask = format!("Send {} out again?", dead_events(count));
    let mut lines = vec![Line::styled(ask, theme.style(Tone::Strong)), Line::default()];
    lines.extend(facts(app, target));
    lines.push(Line::default());
    if in_group.is_some_and(|in_group| in_group < count) {
        let more = "These are more events than the group has: all matching events are sent.";
        lines.extend([Line::styled(more, theme.style(Tone::Notice)), Line::default()]);
    }
    lines.push(Line::from(
        "They become NEW and due now, with no attempt counted. Destinations that already have an event do not get it \
         again.",
    ));
    lines
}

/// A count such as `12 DEAD events`.
fn dead_events(count: u64) -> String {
    events(count).replacen(' ', " DEAD ", 1)
}

fn facts(app: &App, ReplayTarget { source, group }: &ReplayTarget) -> Vec<Line<'static>> {
    let info = app.sources.get(*source);
    let label = info.map_or("", |info| &info.label);
    let outbox = match &group.outbox {
        Some(outbox) => format!("{label} {outbox}"),
        None => label.to_owned(),
    };
    let error = match &*group.reason {
        "" => "any, or none".to_owned(),
        reason => format!("contains \"{}\"", cut(reason, MAX_REASON_CHARS)),
    };
    let actor = info.map_or("", |info| &info.actor);
    [
        ("outbox", &*outbox),
        ("type", &*group.event_type),
        ("aggregate", &*group.aggregate_type),
        ("error", &*error),
        ("on record", actor),
    ]
    .map(|(name, value)| Line::from(safe(&format!("{name:<10} {value}"))))
    .to_vec()
}
