//! Formatting of times, counts and quoted texts in findings.

use std::time::Duration;

use super::Stats;
use crate::time::Timestamp;

/// The most characters of an error text in a finding.
const MAX_QUOTED_CHARS: usize = 200;

/// A duration in whole seconds.
pub(super) fn format_duration(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

/// A timestamp in whole seconds.
pub(super) fn format_time(time: Timestamp) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// A count. Counting stops at [`Stats::MAX_EXACT_COUNT`].
pub(super) fn format_count(count: u64) -> String {
    match count > Stats::MAX_EXACT_COUNT {
        true => format!("more than {}", Stats::MAX_EXACT_COUNT),
        false => count.to_string(),
    }
}

/// A text from outside, such as an error: its beginning, in quotes, on one line.
pub(super) fn quoted(text: &str) -> String {
    let end = text.char_indices().nth(MAX_QUOTED_CHARS).map(|(end, _)| end);
    match end {
        Some(end) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_in_whole_seconds() {
        assert_eq!(format_time(Timestamp::from_micros(90_700_000)), "1970-01-01T00:01:30Z");
        assert_eq!(format_duration(Duration::from_millis(90_700)), "1m 30s");
        assert!(!format_time(Timestamp::from_micros(i64::MIN)).is_empty());
    }

    #[test]
    fn quoted_text_is_cut_and_stays_on_one_line() {
        assert_eq!(quoted("no\nway\u{1b}[31m"), r#""no\nway\u{1b}[31m""#);
        let long = quoted(&"é".repeat(5000));
        assert_eq!(long.chars().count(), MAX_QUOTED_CHARS + 3);
    }
}
