//! What a receiver's answer means for the event.

use http::{HeaderMap, StatusCode, header};
use posthaste::Outcome;

use super::retry_after;

/// By the status alone; `now` is in seconds since 1970.
pub(super) fn outcome(status: StatusCode, headers: &HeaderMap, endpoint: &str, now: u64) -> Outcome {
    let answered = |advice: &str| format!("{endpoint} answered {}{advice}", status.as_u16());
    match status.as_u16() {
        200..=299 => Outcome::Done,
        300..=399 => Outcome::retry(answered(
            ": redirects are not followed, set the URL to the place where the endpoint is now",
        )),
        401 | 407 => Outcome::retry(answered(
            ": it does not know us, check the signing key, the Authorization header and the URL's user",
        )),
        408 | 425 | 429 => {
            let delay = retry_after::delay(headers.get(header::RETRY_AFTER), now);
            Outcome::RetryAfter(delay, answered("").into())
        }
        410 => Outcome::Dead(answered(": the endpoint is gone, replay the event when there is another")),
        // Said by what stands in front of the receiver, or by one that is starting or overloaded.
        502..=504 => Outcome::no_answer(answered(": there is nobody behind it now")),
        _ => Outcome::retry(answered("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Done => "done",
            Outcome::Defer(_) => "defer",
            Outcome::Retry(_) => "retry",
            Outcome::RetryAfter(..) => "retry after",
            Outcome::Dead(_) => "dead",
            Outcome::Unreachable(why) if why.connection_failed => "no connection",
            Outcome::Unreachable(_) => "no answer",
        }
    }

    #[test]
    fn every_status_has_a_class() {
        let expected = |code| match code {
            200..=299 => "done",
            502..=504 => "no answer",
            408 | 425 | 429 => "retry after",
            410 => "dead",
            _ => "retry",
        };
        for code in 100..=999 {
            let status = StatusCode::from_u16(code).expect("a status");
            let outcome = outcome(status, &HeaderMap::new(), "https://host", 0);
            assert_eq!(class(&outcome), expected(code), "{code}: {outcome:?}");
        }
    }
}
