//! The attempt to deliver one event: joins the outcomes of all destinations of a fan-out into one.

use crate::destination::{Busy, Outcome, Unreachable};
use crate::error::{cut_error, error_text};

#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// The outcome with the highest [`rank`] so far. `None` before the first.
    outcome: Option<Outcome>,
    /// Destinations of a fan-out that accepted the event in this attempt.
    pub(super) delivered: Vec<String>,
    /// An interceptor refused the event, so no destination is called.
    refused: bool,
}

impl Attempt {
    /// An interceptor refused the event: no destination gets it.
    pub(super) fn refused(outcome: Outcome) -> Self {
        Self { outcome: Some(outcome), delivered: Vec::new(), refused: true }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Adds the outcome of the only destination, or of one of several, with its name.
    pub(super) fn add(&mut self, fan_out: Option<&str>, outcome: Outcome) {
        let outcome = match fan_out {
            None => outcome,
            Some(name) => {
                if outcome.is_done() {
                    self.delivered.push(name.to_owned());
                }
                named(name, outcome)
            }
        };
        self.outcome = Some(match self.outcome.take() {
            Some(other) if rank(&other) >= rank(&outcome) => other,
            _ => outcome,
        });
    }

    /// The outcome of the event. It is done if every destination had it already.
    pub(super) fn outcome(&self) -> &Outcome {
        self.outcome.as_ref().unwrap_or(&Outcome::Done {})
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.outcome.unwrap_or_else(Outcome::done)
    }
}

/// Priority of an outcome among those of one event. Outcomes that may still succeed come before final ones, so that a
/// final refusal by one destination does not end the delivery to the others.
fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Done { .. } => 0,
        Outcome::Unsendable(_) => 1,
        Outcome::Dead(_) => 2,
        Outcome::Defer(_) => 3,
        Outcome::Busy(_) => 4,
        Outcome::Unreachable(_) => 5,
        Outcome::Failed(_) | Outcome::FailedWithDelay(..) => 6,
    }
}

fn named(name: &str, outcome: Outcome) -> Outcome {
    let with_name = |text: &str| format!("{name}: {text}");
    match outcome {
        Outcome::Done { .. } | Outcome::Defer(_) => outcome,
        Outcome::Dead(reason) => Outcome::Dead(cut_error(with_name(&reason))),
        Outcome::Unsendable(reason) => Outcome::Unsendable(cut_error(with_name(&reason))),
        Outcome::Failed(error) => Outcome::retry(with_name(&error_text(error.as_ref()))),
        Outcome::FailedWithDelay(delay, error) => {
            Outcome::retry_after(delay, with_name(&error_text(error.as_ref())))
        }
        Outcome::Unreachable(Unreachable { error, connection_failed }) => {
            let error = with_name(&error_text(error.as_ref())).into();
            Outcome::Unreachable(Unreachable { error, connection_failed })
        }
        Outcome::Busy(Busy { error, retry_after }) => {
            let error = with_name(&error_text(error.as_ref())).into();
            Outcome::Busy(Busy { error, retry_after })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_that_may_still_succeed_has_priority_over_a_final_one() {
        let mut attempt = Attempt::default();
        attempt.add(Some("kafka"), Outcome::done());
        attempt.add(Some("mail"), Outcome::Dead("no such address".to_owned()));
        assert!(matches!(attempt.outcome(), Outcome::Dead(reason) if reason == "mail: no such address"));
        attempt.add(Some("search"), Outcome::retry("busy"));
        assert!(matches!(attempt.outcome(), Outcome::Failed(error) if error.to_string() == "search: busy"));
        assert_eq!(attempt.delivered, ["kafka"]);
    }

    #[test]
    fn event_that_every_destination_has_is_done() {
        assert!(Attempt::default().outcome().is_done());
    }
}
