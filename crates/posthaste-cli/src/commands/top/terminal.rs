//! The terminal: entered once, and restored however the program ends.

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

/// Whether the alternate screen is open. Whichever resets it first, `drop` or the panic hook, restores the terminal.
static SCREEN_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// The alternate screen of the terminal, in raw mode. Dropping it restores the terminal.
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

    /// Draws a frame, without flicker if the terminal supports synchronized updates. After a panic it draws nothing,
    /// because the message of the panic is on the main screen.
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

/// Restores the terminal. Errors are ignored, because the terminal may be gone.
fn restore() {
    if !SCREEN_IS_OPEN.swap(false, Ordering::AcqRel) {
        return;
    }
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), EndSynchronizedUpdate, LeaveAlternateScreen, Show);
    let _ = stdout().flush();
}

/// Restores the terminal before a panic prints its message, so that the message and the shell are readable.
fn restore_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
    }));
}
