//! Changes of many events: they are counted, confirmed and made in batches.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use indicatif::ProgressBar;
use posthaste::admin::Filter;
use posthaste::{EventId, StoreError};
use serde::Serialize;
use tokio::time::Instant;

use super::batch_rate::BatchRate;
use crate::args::ConsentArgs;
use crate::errors::{UsageError, say};
use crate::output::{Report, events};
use posthaste_admin::terminal_escape;

/// What to do with a planned change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Decision {
    Go,
    Dry,
    No,
}

/// Asks the user, unless the arguments decide. `plan` says what would be done, such as `replay 12 events`.
pub(in crate::commands) fn decide(consent: &ConsentArgs, plan: &str) -> anyhow::Result<Decision> {
    if consent.dry_run {
        return Ok(Decision::Dry);
    }
    if consent.yes {
        return Ok(Decision::Go);
    }
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        let advice =
            "there is no terminal to ask on: add --yes to proceed, or --dry-run to see what would change";
        return Err(UsageError::new(format!("this would {plan}; {advice}")).into());
    }
    write!(stderr, "This would {}. Go ahead? [y/N] ", terminal_escape::one_line(plan))?;
    stderr.flush()?;
    let mut reply = String::new();
    stdin.lock().read_line(&mut reply).context("the reply cannot be read")?;
    if matches!(reply.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(Decision::Go);
    }
    say("Nothing was changed.");
    Ok(Decision::No)
}

/// Calls `change` with the size of the batch and the number of events changed so far, until it returns zero or the
/// confirmed number is reached: an event that is replayed and dies again immediately would otherwise be replayed for
/// ever. A stop takes effect between two batches. Counts in `done`, which may already contain changes.
pub(in crate::commands) async fn in_batches(
    done: &mut BulkChange,
    batch_rate: &mut BatchRate,
    bar: &ProgressBar,
    mut change: impl AsyncFnMut(usize, u64) -> Result<u64, StoreError>,
) -> anyhow::Result<()> {
    loop {
        let left = if done.exact { done.matched.saturating_sub(done.changed) } else { u64::MAX };
        let limit = batch_rate.batch().min(usize::try_from(left).unwrap_or(usize::MAX));
        if limit == 0 {
            break;
        }
        if !batch_rate.wait_for_turn().await {
            done.stopped = Some(StopReason::Interrupted);
            break;
        }
        let began = Instant::now();
        let more = change(limit, done.changed).await.with_context(|| stopped(done.changed))?;
        if more == 0 {
            break;
        }
        batch_rate.record(began, more);
        done.changed += more;
        bar.inc(more);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Restricts a filter to the events that were already DEAD at `began`. The oldest events go first, so without this an
/// event that dies again immediately would be replayed repeatedly and newer events never.
pub(in crate::commands) fn dead_since(filter: &Filter, began: Instant) -> Filter {
    let older_than = Some(began.elapsed().max(filter.older_than.unwrap_or_default()));
    let mut filter = filter.clone();
    filter.older_than = older_than;
    filter
}

pub(in crate::commands) fn stopped(changed: u64) -> String {
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
pub(in crate::commands) struct BulkChange {
    pub(in crate::commands) action: &'static str,
    pub(in crate::commands) dry_run: bool,
    /// Number of events to which the change applies.
    pub(in crate::commands) matched: u64,
    /// Whether `matched` is exact. If not, there were too many events to count them all.
    pub(in crate::commands) exact: bool,
    pub(in crate::commands) changed: u64,
    /// Number of events that still match, if known.
    pub(in crate::commands) remaining: Option<u64>,
    /// Ids from the command line that are not of DEAD events.
    pub(in crate::commands) unchanged: Vec<EventId>,
    /// Why the change ended before it reached all events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) stopped: Option<StopReason>,
    /// The action in the past tense, such as `replayed`, for the text.
    #[serde(skip)]
    pub(in crate::commands) past: &'static str,
}

/// Why a change ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum StopReason {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The canary was not delivered.
    Canary,
}

impl BulkChange {
    /// Success only if every event was changed.
    pub(in crate::commands) fn exit_code(&self) -> ExitCode {
        let whole = self.unchanged.is_empty() && self.stopped.is_none();
        if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn why_some_remain(&self) -> &'static str {
        match self.stopped {
            None => "died again, or died meanwhile",
            Some(StopReason::Interrupted) => "run the same command again for the rest",
            Some(StopReason::Canary) => "nothing more was replayed, because of the canary",
        }
    }
}

impl Report for BulkChange {
    fn text(&self) -> String {
        let at_least = if self.exact { "" } else { "at least " };
        let mut text = match self.dry_run {
            true => format!("{at_least}{} would be {}; nothing was changed", events(self.matched), self.past),
            false => format!("{} {}", events(self.changed), self.past),
        };
        if self.stopped == Some(StopReason::Interrupted) {
            text += ", then interrupted";
        }
        if let Some(remaining) = self.remaining.filter(|remaining| *remaining > 0 && !self.dry_run) {
            text += &format!("\n{} still DEAD: {}", events(remaining), self.why_some_remain());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;

    fn meant(matched: u64, exact: bool) -> BulkChange {
        BulkChange { matched, exact, past: "replayed", ..BulkChange::default() }
    }

    async fn batches(
        done: &mut BulkChange,
        stop: &Stop,
        change: impl AsyncFnMut(usize, u64) -> Result<u64, StoreError>,
    ) -> anyhow::Result<()> {
        in_batches(done, &mut BatchRate::new(None, stop.clone()), &ProgressBar::hidden(), change).await
    }

    #[tokio::test]
    async fn batches_end_with_what_was_agreed_on() {
        let (mut done, mut limits) = (meant(1200, true), Vec::new());
        let change = async |limit, _| {
            limits.push(limit);
            Ok(limit as u64)
        };
        batches(&mut done, &Stop::never(), change).await.unwrap();
        assert_eq!((done.changed, limits), (1200, vec![500, 500, 200]));
    }

    #[tokio::test]
    async fn batches_end_when_nothing_is_left() {
        let (mut done, mut results) = (meant(7, false), [500, 3, 0, 9].into_iter());
        batches(&mut done, &Stop::never(), async |_, _| Ok(results.next().unwrap())).await.unwrap();
        assert_eq!((done.changed, done.stopped), (503, None));
    }

    #[tokio::test]
    async fn who_asks_to_stop_is_heard_between_two_batches() {
        let (mut done, stop) = (meant(1200, true), Stop::never());
        let change = async |limit, _| {
            stop.request();
            Ok(limit as u64)
        };
        batches(&mut done, &stop, change).await.unwrap();
        assert_eq!((done.changed, done.stopped), (500, Some(StopReason::Interrupted)));
        done.remaining = Some(700);
        let (first, rest) =
            ("500 events replayed, then interrupted", "run the same command again for the rest");
        assert_eq!(done.text(), format!("{first}\n700 events still DEAD: {rest}"));
    }

    #[tokio::test]
    async fn failure_on_the_way_says_how_far_it_came() {
        let mut results = [Ok(500), Err(StoreError::backend("test", "gone"))].into_iter();
        let mut done = meant(1200, true);
        let error =
            batches(&mut done, &Stop::never(), async |_, _| results.next().unwrap()).await.unwrap_err();
        assert!(error.to_string().starts_with("stopped after 500 events"), "{error}");
    }

    #[test]
    fn events_that_died_again_are_mentioned() {
        let done = BulkChange {
            past: "replayed",
            changed: 3,
            exact: true,
            remaining: Some(1),
            ..BulkChange::default()
        };
        assert_eq!(done.text(), "3 events replayed\n1 event still DEAD: died again, or died meanwhile");
    }

    #[test]
    fn arguments_that_answer_are_not_asked_again() {
        let yes = ConsentArgs { yes: true, ..ConsentArgs::default() };
        let dry = ConsentArgs { dry_run: true, ..ConsentArgs::default() };
        assert_eq!(decide(&yes, "x").unwrap(), Decision::Go);
        assert_eq!(decide(&dry, "x").unwrap(), Decision::Dry);
    }
}
