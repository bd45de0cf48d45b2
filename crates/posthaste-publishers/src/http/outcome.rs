//! The outcome of an event from the receiver's response.

use http::{HeaderMap, StatusCode, header};
use posthaste::Outcome;

use super::retry_after;

/// By the status, and by `Retry-After` where there is one; `now` is in seconds since 1970.
pub(super) fn of_response(status: StatusCode, headers: &HeaderMap, endpoint: &str, now: u64) -> Outcome {
    let wait = retry_after::delay(headers.get(header::RETRY_AFTER), now);
    let answered = |advice: &str| format!("{endpoint} answered {}{advice}", status.as_u16());
    let busy = || Outcome::busy_for(wait, answered(": it asks for less"));
    match status.as_u16() {
        200..=299 => Outcome::done(),
        300..=399 => Outcome::retry(answered(
            ": redirects are not followed, set the URL to the place where the endpoint is now",
        )),
        401 | 407 => Outcome::retry(answered(
            ": it does not know us, check the signing key, the Authorization header and the URL's user",
        )),
        408 | 425 => Outcome::retry_after(wait.unwrap_or(retry_after::DEFAULT_DELAY), answered("")),
        // A rate limit, or an overload that passes: it is about the receiver and not about the event.
        429 => busy(),
        503 if wait.is_some() => busy(),
        410 => Outcome::Dead(answered(": the endpoint is gone, replay the event when there is another")),
        // Sent by a proxy in front of the receiver, or by a receiver that is starting. 507 is not among them: a
        // receiver may say it about one event that is too large for its quota.
        502..=504 => Outcome::no_answer(answered(": there is nobody behind it now")),
        _ => Outcome::retry(answered("")),
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
    fn every_status_has_a_class() {
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
    fn receiver_that_names_a_time_is_busy_and_not_away() {
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
