//! Outcomes of events, from the receiver's responses.

use http::{HeaderMap, StatusCode, header};
use posthaste::Outcome;

use super::retry_after;

/// Returns the outcome for a status and an optional `Retry-After`. `now` is the Unix time in seconds.
pub(super) fn of_response(status: StatusCode, headers: &HeaderMap, endpoint: &str, now: u64) -> Outcome {
    let wait = retry_after::delay(headers.get(header::RETRY_AFTER), now);
    let responded = |advice: &str| format!("{endpoint} responded with {}{advice}", status.as_u16());
    let busy = || Outcome::busy_for(wait, responded(": it asks for fewer requests"));
    match status.as_u16() {
        200..=299 => Outcome::done(),
        300..=399 => Outcome::retry(responded(
            ": redirects are not followed, set the URL to the current address of the endpoint",
        )),
        401 | 407 => Outcome::retry(responded(
            ": it refuses our credentials, check the signing key, the Authorization header and the URL's user",
        )),
        408 | 425 => Outcome::retry_after(wait.unwrap_or(retry_after::DEFAULT_DELAY), responded("")),
        // A rate limit or a temporary overload concerns the receiver and not the event, so it costs no attempt.
        429 => busy(),
        503 if wait.is_some() => busy(),
        410 => Outcome::Dead(responded(": the endpoint is gone, replay the event once there is another")),
        // Sent by a proxy in front of the receiver, or by a receiver that is starting. 507 is treated as an
        // attempt: a receiver may send it for a single event that exceeds its quota.
        502..=504 => Outcome::no_answer(responded(": there is no receiver behind it at the moment")),
        _ => Outcome::retry(responded("")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn class(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::FailedWithDelay(..) => "retry after",
            Outcome::Unreachable(why) if why.connection_failed => "no connection",
            other => other.name(),
        }
    }

    #[test]
    fn every_status_has_an_outcome() {
        let expected = |code| match code {
            200..=299 => "done",
            502..=504 => "unreachable",
            408 | 425 => "retry after",
            429 => "busy",
            410 => "dead",
            _ => "retry",
        };
        for code in 100..=999 {
            let status = StatusCode::from_u16(code).expect("a status");
            let outcome = of_response(status, &HeaderMap::new(), "https://host", 0);
            assert_eq!(class(&outcome), expected(code), "{code}: {outcome:?}");
        }
    }

    #[test]
    fn receiver_that_sends_retry_after_is_busy_and_not_unreachable() {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, "7".parse().expect("a value"))]);
        for (code, expected) in [(429, "busy"), (503, "busy"), (502, "unreachable"), (504, "unreachable")] {
            let status = StatusCode::from_u16(code).expect("a status");
            let outcome = of_response(status, &headers, "https://host", 0);
            assert_eq!(class(&outcome), expected, "{code}: {outcome:?}");
            if let Outcome::Busy(busy) = outcome {
                assert_eq!(busy.retry_after, Some(Duration::from_secs(7)), "{code}");
            }
        }
    }
}
