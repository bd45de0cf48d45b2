//! The response header `Retry-After`: how long the receiver asks to wait.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderValue;

/// The delay if the receiver sends no time that can be parsed.
pub(super) const DEFAULT_DELAY: Duration = Duration::from_secs(30);
const MIN_DELAY: Duration = Duration::from_secs(1);
/// The longest delay: a receiver must not be able to postpone an event for years.
const MAX_DELAY: Duration = Duration::from_secs(3_600);

/// Returns the delay, between `MIN_DELAY` and `MAX_DELAY`; `None` if the header cannot be parsed. The header
/// contains seconds or an HTTP date. `now` is the Unix time in seconds.
pub(super) fn delay(header: Option<&HeaderValue>, now: u64) -> Option<Duration> {
    let text = header.and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => Some(seconds),
        // A number of seconds that is too large for `u64`.
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => Some(u64::MAX),
        Err(_) => date(text).map(|date| date.saturating_sub(now)),
    };
    seconds.map(|seconds| Duration::from_secs(seconds).clamp(MIN_DELAY, MAX_DELAY))
}

/// Parses an HTTP date into Unix seconds.
fn date(text: &str) -> Option<u64> {
    let date = httpdate::parse_http_date(text).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: u64 = 784_111_777;

    #[test]
    fn every_notation_gives_a_delay_within_the_limits() {
        for (text, seconds) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("0", Some(1)),
            ("3600", Some(3_600)),
            ("3601", Some(3_600)),
            ("99999999999999999999999", Some(3_600)),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(1)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 09:00:00 GMT", Some(623)),
            ("Mon, 07 Nov 1994 08:49:37 GMT", Some(3_600)),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(1)),
            ("Sun, 06 Nov 1994 25:49:37 GMT", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994", None),
            ("Sun, 06 Nov 1994 08:49:37:11 GMT", None),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
        ] {
            let header = HeaderValue::from_str(text).expect("a value");
            assert_eq!(delay(Some(&header), NOW), seconds.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(delay(None, NOW), None);
        assert_eq!(delay(Some(&HeaderValue::from_bytes(b"\xff").expect("a value")), NOW), None);
    }
}
