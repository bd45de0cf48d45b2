//! The terminal, which gets back to what it was whatever happens.

use std::io::{self, Stdout, Write as _, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::app::App;
use super::draw::{Theme, draw};

/// Whether the second screen is there: it is left once, by whoever comes first.
static SCREEN_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// A second screen of the terminal, on which keys are not echoed. Dropped, the first one is back.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    theme: Theme,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        static PANIC_HOOK: Once = Once::new();
        PANIC_HOOK.call_once(restore_on_panic);
        let opened = enter();
        if opened.is_err() {
            restore();
        }
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self { terminal: opened?, theme: Theme { colours } })
    }

    /// Shows the whole frame at once, where the terminal can. Nothing, after a panic somewhere: what is said about it
    /// stands on the first screen.
    pub(super) fn draw(&mut self, app: &App) -> io::Result<()> {
        if !SCREEN_IS_OPEN.load(Ordering::Acquire) {
            return Ok(());
        }
        execute!(stdout(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| draw(frame, app, self.theme))?;
        execute!(stdout(), EndSynchronizedUpdate)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn enter() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    SCREEN_IS_OPEN.store(true, Ordering::Release);
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide)?;
    Terminal::new(CrosstermBackend::new(stdout()))
}

/// As far as the terminal is still there.
fn restore() {
    if !SCREEN_IS_OPEN.swap(false, Ordering::AcqRel) {
        return;
    }
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), EndSynchronizedUpdate, LeaveAlternateScreen, Show);
    let _ = stdout().flush();
}

/// What is said about a panic must be readable, and so must be the shell after it.
fn restore_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
    }));
}
