//! Styles. Colours only repeat what the text says, so `NO_COLOR` removes no information.

use ratatui::style::{Color, Modifier, Style};

use crate::commands::top::outbox_history::OutboxState;

#[derive(Clone, Copy, Debug)]
pub(in crate::commands::top) struct Theme {
    pub(in crate::commands::top) colours: bool,
}

/// Meaning of a part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Title,
    Strong,
    Dim,
    Good,
    Notice,
    Bad,
    Chosen,
}

impl Theme {
    pub(super) fn style(self, tone: Tone) -> Style {
        let plain = Style::new();
        let coloured = |colour| if self.colours { plain.fg(colour) } else { plain };
        match tone {
            Tone::Title | Tone::Chosen => plain.add_modifier(Modifier::REVERSED),
            Tone::Strong => plain.add_modifier(Modifier::BOLD),
            Tone::Dim => plain.add_modifier(Modifier::DIM),
            Tone::Good => coloured(Color::Green),
            Tone::Notice => coloured(Color::Yellow),
            Tone::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    pub(super) fn of_state(self, state: OutboxState) -> Style {
        self.style(match state {
            OutboxState::Asking => Tone::Dim,
            OutboxState::Well => Tone::Good,
            OutboxState::Paused | OutboxState::Dead | OutboxState::Unreachable => Tone::Notice,
            OutboxState::Late | OutboxState::Silent => Tone::Bad,
        })
    }
}
