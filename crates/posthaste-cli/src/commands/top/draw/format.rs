//! Short formats of figures and texts.

use std::time::Duration;

use posthaste::Timestamp;
use ratatui::text::Span;

use posthaste_admin::terminal_escape;

/// Escapes a text from a source, so that it cannot send control sequences to the terminal.
pub(super) fn safe(text: &str) -> String {
    terminal_escape::one_line(text)
}

/// A count in at most six characters; an estimate has the prefix `~`.
pub(super) fn count(count: u64, estimated: bool) -> String {
    let short = match count {
        0..100_000 => count.to_string(),
        100_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000..10_000_000 => format!("{:.1}M", (count / 100_000) as f64 / 10.0),
        10_000_000..1_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    };
    if estimated { format!("~{short}") } else { short }
}

/// An age in at most two units: `12s`, `3m 5s`, `1h 12m`, `3d 4h`.
pub(super) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {}s", seconds % 60),
        3600..86_400 => format!("{hours}h {}m", minutes % 60),
        _ if days < 100 => format!("{days}d {}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// The time since `then`, by the clock of this machine.
pub(super) fn ago(then: Option<Timestamp>, now: Timestamp) -> String {
    or_dash(then.map(|then| age(now.since(then))))
}

/// A rate in at most five characters.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 1_000.0 => format!("{rate:.1}"),
        Some(rate) => count(rate as u64, false),
    }
}

pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// The end of a long text: the end of a URL is more specific than its beginning.
pub(super) fn end_of(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut kept = text;
    while Span::raw(kept).width() >= width.max(1) {
        let mut chars = kept.chars();
        chars.next();
        kept = chars.as_str();
    }
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_short() {
        let shown = [0, 99_999, 123_456, 1_290_000, 45_600_000, u64::MAX].map(|n| count(n, false));
        assert_eq!(shown, ["0", "99999", "123k", "1.2M", "45M", "18446744073G"]);
        assert_eq!(count(200_000, true), "~200k");
    }

    #[test]
    fn ages_have_two_units() {
        let shown = [0, 59, 61, 3_599, 4_320, 90_000, 86_400 * 400].map(|s| age(Duration::from_secs(s)));
        assert_eq!(shown, ["0s", "59s", "1m 1s", "59m 59s", "1h 12m", "1d 1h", "400d"]);
    }

    #[test]
    fn unknown_rates_are_dashes() {
        assert_eq!([None, Some(0.0), Some(96.84), Some(12_345.6)].map(rate), ["-", "0.0", "96.8", "12345"]);
    }

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(end_of("sqlite:shop.db", 14), "sqlite:shop.db");
        assert_eq!(end_of("sqlite:///var/lib/shop.db", 10), "…b/shop.db");
        assert_eq!(end_of("注文注文", 5), "…注文");
        assert_eq!(end_of("abc", 0), "…");
    }
}
