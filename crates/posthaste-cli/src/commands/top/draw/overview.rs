//! The overview: one line per outbox, and below them details of the selected one.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::widgets::{Block, Borders, Cell, Row as TableRow};

use super::format::{age, count, end_of, or_dash, rate, safe};
use super::lists::{LEFT, List, RIGHT, right_aligned};
use super::outbox;
use super::theme::{Theme, Tone};
use crate::commands::top::app::App;
use crate::commands::top::outbox_history::OutboxRow;

/// Minimum width of the names. If they have less room, columns are dropped.
const MIN_NAME_WIDTH: u16 = 12;

/// Width of the cursor.
const CURSOR_WIDTH: u16 = 2;

/// A column after the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Pending,
    Due,
    Retry,
    Parked,
    Dead,
    Oldest,
    Out,
    In,
    State,
}

/// Columns from left to right.
const COLUMN_ORDER: [Column; 9] = [
    Column::Pending,
    Column::Due,
    Column::Retry,
    Column::Parked,
    Column::Dead,
    Column::Oldest,
    Column::Out,
    Column::In,
    Column::State,
];

/// The order in which columns are dropped on a narrow terminal.
const COLUMN_DROP_ORDER: [Column; 9] = [
    Column::Retry,
    Column::In,
    Column::Due,
    Column::Parked,
    Column::Out,
    Column::Oldest,
    Column::Pending,
    Column::Dead,
    Column::State,
];

impl Column {
    fn heading(self) -> (&'static str, u16, Alignment) {
        match self {
            Self::Pending => ("pending", 7, RIGHT),
            Self::Due => ("due", 5, RIGHT),
            Self::Retry => ("retry", 5, RIGHT),
            Self::Parked => ("parked", 6, RIGHT),
            Self::Dead => ("dead", 5, RIGHT),
            Self::Oldest => ("oldest", 7, RIGHT),
            Self::Out => ("out/s", 5, RIGHT),
            Self::In => ("in/s", 5, RIGHT),
            Self::State => ("state", 9, LEFT),
        }
    }

    fn width(self) -> u16 {
        self.heading().1
    }
}

/// The columns that fit beside the name.
fn columns(width: u16) -> Vec<Column> {
    let mut columns = COLUMN_ORDER.to_vec();
    for spared in COLUMN_DROP_ORDER {
        let taken: u16 = columns.iter().map(|column| column.width() + 1).sum();
        if taken + MIN_NAME_WIDTH + CURSOR_WIDTH <= width {
            break;
        }
        columns.retain(|column| *column != spared);
    }
    columns
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let lines = u16::try_from(app.rows.len()).unwrap_or(u16::MAX).saturating_add(1);
    let above = lines.min((area.height / 2).max(2));
    let [above, below] = Layout::vertical([Constraint::Length(above), Constraint::Fill(1)]).areas(area);
    list(app, above.width, theme).draw(frame, above, theme);
    let Some(row) = app.row() else { return };
    let block = Block::new().borders(Borders::TOP).title(format!(" {} ", safe(&row.label)));
    let inner = block.inner(below);
    frame.render_widget(block, below);
    outbox::draw_parts(frame, inner, app, false, theme);
}

fn list<'a>(app: &App, width: u16, theme: Theme) -> List<'a> {
    let columns = columns(width);
    let taken: u16 = columns.iter().map(|column| column.width() + 1).sum();
    let name = width.saturating_sub(taken + CURSOR_WIDTH);
    let heading = |column: &Column| {
        let (heading, width, side) = column.heading();
        (heading, Constraint::Length(width), side)
    };
    let headings =
        std::iter::once(("outbox", Constraint::Length(name), LEFT)).chain(columns.iter().map(heading));
    List {
        headings: headings.collect(),
        rows: app.rows.iter().map(|row| line(row, &columns, name, theme)).collect(),
        empty: "",
        chosen: Some(app.outbox.at()),
    }
}

fn line<'a>(row: &OutboxRow, columns: &[Column], name: u16, theme: Theme) -> TableRow<'a> {
    let name = Cell::from(end_of(&safe(&row.label), name.into()));
    let cells = columns.iter().map(|column| cell(row, *column, theme));
    let line = TableRow::new(std::iter::once(name).chain(cells));
    // Figures of an outbox that does not respond are dimmed, because they are old.
    if row.error.is_some() { line.style(theme.style(Tone::Dim)) } else { line }
}

fn cell<'a>(row: &OutboxRow, column: Column, theme: Theme) -> Cell<'a> {
    let state = row.state();
    if column == Column::State {
        return Cell::from(state.word()).style(theme.of_state(state));
    }
    let Some(snapshot) = &row.snapshot else { return right_aligned("-".to_owned()) };
    let (stats, estimated) = (&snapshot.stats, snapshot.stats.estimated);
    let pending = |events| count(events, estimated.pending);
    right_aligned(match column {
        Column::Pending => pending(stats.new + stats.retry),
        Column::Due => pending(stats.due),
        Column::Retry => pending(stats.retry),
        Column::Parked => pending(stats.parked),
        Column::Dead => count(stats.dead, estimated.dead),
        Column::Oldest => or_dash(stats.oldest_pending.map(age)),
        Column::Out => rate(row.flow().out),
        Column::In => rate(row.flow().into),
        Column::State => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_screen_drops_columns_before_the_name() {
        assert_eq!(columns(80), COLUMN_ORDER);
        assert_eq!(columns(40), [Column::Pending, Column::Dead, Column::State]);
        assert_eq!(columns(0), []);
    }
}
