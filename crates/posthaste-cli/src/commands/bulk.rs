//! Changes of many events: counted first, agreed to, and made in batches.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Context;
use indicatif::ProgressBar;
use posthaste::{EventId, StoreError};
use serde::Serialize;

use crate::args::Consent;
use crate::escape;
use crate::failure::{Usage, say};
use crate::output::{Report, events};

/// Events per call of the store: each is one transaction, which must not hold others up for long.
pub(super) const BATCH: usize = 500;

/// How an operator wants a change to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Go,
    Dry,
    No,
}

/// Asks, unless the arguments have the answer. `plan` is what would be done, such as
/// `replay 12 events`.
pub(super) fn decide(consent: &Consent, plan: &str) -> anyhow::Result<Decision> {
    if consent.dry_run {
        return Ok(Decision::Dry);
    }
    if consent.yes {
        return Ok(Decision::Go);
    }
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        let advice = "nobody is here to be asked: add --yes to go ahead, or --dry-run to only look";
        return Err(Usage::new(format!("this would {plan}; {advice}")).into());
    }
    write!(stderr, "This would {}. Go ahead? [y/N] ", escape::one_line(plan))?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).context("the answer cannot be read")?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(Decision::Go);
    }
    say("Nothing was changed.");
    Ok(Decision::No)
}

/// Calls `change` with a limit until it answers zero, or until as many events as were agreed on are
/// changed: an event that is replayed and dies again at once would otherwise be replayed for ever.
pub(super) async fn in_batches(
    agreed: Option<u64>,
    bar: &ProgressBar,
    mut change: impl AsyncFnMut(usize) -> Result<u64, StoreError>,
) -> anyhow::Result<u64> {
    let mut changed = 0;
    loop {
        let left = agreed.map_or(BATCH as u64, |agreed| agreed.saturating_sub(changed));
        let limit = BATCH.min(usize::try_from(left).unwrap_or(BATCH));
        if limit == 0 {
            break;
        }
        let more = change(limit).await.with_context(|| stopped(changed))?;
        if more == 0 {
            break;
        }
        changed += more;
        bar.inc(more);
    }
    bar.finish_and_clear();
    Ok(changed)
}

pub(super) fn stopped(changed: u64) -> String {
    match changed {
        0 => "nothing was changed".to_owned(),
        n => format!(
            "stopped after {}, which stay changed; run the same command again for the rest",
            events(n)
        ),
    }
}

/// What a change did, or would do.
#[derive(Debug, Default, Serialize)]
pub(super) struct Change {
    pub(super) action: &'static str,
    pub(super) dry_run: bool,
    /// How many events were meant.
    pub(super) matched: u64,
    /// Whether all that are meant were counted.
    pub(super) exact: bool,
    pub(super) changed: u64,
    /// How many match still, if that is known.
    pub(super) remaining: Option<u64>,
    /// Ids that were named and are not of DEAD events.
    pub(super) unchanged: Vec<EventId>,
    /// For people: `replayed`.
    #[serde(skip)]
    pub(super) past: &'static str,
}

impl Report for Change {
    fn text(&self) -> String {
        let at_least = if self.exact { "" } else { "at least " };
        let mut text = match self.dry_run {
            true => format!("{at_least}{} would be {}; nothing was changed", events(self.matched), self.past),
            false => format!("{} {}", events(self.changed), self.past),
        };
        if let Some(remaining) = self.remaining.filter(|remaining| *remaining > 0 && !self.dry_run) {
            text += &format!("\n{} still DEAD: died again, or died meanwhile", events(remaining));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn batches_end_with_what_was_agreed_on() {
        let (bar, mut limits) = (ProgressBar::hidden(), Vec::new());
        let changed = in_batches(Some(1200), &bar, async |limit| {
            limits.push(limit);
            Ok(limit as u64)
        });
        assert_eq!(changed.await.unwrap(), 1200);
        assert_eq!(limits, [500, 500, 200]);
    }

    #[tokio::test]
    async fn batches_end_when_nothing_is_left() {
        let (bar, mut answers) = (ProgressBar::hidden(), [500, 3, 0, 9].into_iter());
        let changed = in_batches(None, &bar, async |_| Ok(answers.next().unwrap()));
        assert_eq!(changed.await.unwrap(), 503);
    }

    #[tokio::test]
    async fn failure_on_the_way_says_how_far_it_came() {
        let bar = ProgressBar::hidden();
        let mut answers = [Ok(500), Err(StoreError::backend("test", "gone"))].into_iter();
        let changed = in_batches(Some(1200), &bar, async |_| answers.next().unwrap());
        let error = changed.await.unwrap_err();
        assert!(error.to_string().starts_with("stopped after 500 events"), "{error}");
    }

    #[test]
    fn events_that_died_again_are_mentioned() {
        let done =
            Change { past: "replayed", changed: 3, exact: true, remaining: Some(1), ..Change::default() };
        assert_eq!(done.text(), "3 events replayed\n1 event still DEAD: died again, or died meanwhile");
    }

    #[test]
    fn arguments_that_answer_are_not_asked_again() {
        let yes = Consent { yes: true, ..Consent::default() };
        let dry = Consent { dry_run: true, ..Consent::default() };
        assert_eq!(decide(&yes, "x").unwrap(), Decision::Go);
        assert_eq!(decide(&dry, "x").unwrap(), Decision::Dry);
    }
}
