//! `posthaste top` in a terminal: its screens, its keys, and the state of the terminal afterwards.

mod relays;
mod screen;
mod stores;
mod terminal;

use screen::Screen;

use crate::shop::Shop;

/// Starts `posthaste top` on the shop's database, with a short interval.
fn top(shop: &Shop, words: &str, width: u16, height: u16) -> Screen {
    let mut command = shop.command(&format!("top --interval 100ms {words}"));
    command.env_remove("NO_COLOR").env_remove("POSTHASTE_RELAY");
    Screen::of(command, width, height)
}

/// The screen without what changes from run to run: the clock, and the days since 2020.
fn without_clock(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(first) = lines.first_mut() {
        let end = first.trim_end().len().saturating_sub("12:04:05Z".len());
        first.replace_range(end.., "(time)");
    }
    let days =
        |word: &str| word.ends_with('d') && word.get(..4).is_some_and(|days| days.parse::<u32>().is_ok());
    let masked = |line: String| -> String {
        line.split(' ').map(|word| if days(word) { "(days)" } else { word }).collect::<Vec<_>>().join(" ")
    };
    // Depending on the time, there was a second observation or not.
    lines
        .into_iter()
        .map(masked)
        .collect::<Vec<_>>()
        .join("\n")
        .replace("- out/s, - in/s", "0.0 out/s, 0.0 in/s")
}
