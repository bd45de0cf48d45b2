//! Errors of a configuration and its routes, all reported together.

use std::fmt;
use std::time::Duration;

use super::{Config, LeaseConfig, Mode, PollerConfig, QueueConfig, RetryPolicy};
use crate::store::OnDone;

/// All problems of a configuration and its routes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Which kind of mistake it is, for programs; `advice` says it in words.
    pub kind: ProblemKind,
    /// The setting as it is written in a file, such as `poller.batch`.
    pub setting: String,
    /// What is wrong with it, and what to do.
    pub advice: String,
}

/// Kinds of [`Problem`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A setting of the configuration is wrong.
    Setting,
    /// A route is wrong, whatever the other routes are.
    Route,
    /// A route has no destination.
    NoDestination,
    /// A route takes the same events as a route before it.
    SameEvents,
    /// A route has the same name as a route before it.
    SameName,
}

impl Problem {
    /// A problem of a setting.
    pub(crate) fn new(setting: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { kind: ProblemKind::Setting, setting: setting.into(), advice: advice.into() }
    }

    pub(crate) fn of_kind(self, kind: ProblemKind) -> Self {
        Self { kind, ..self }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        write!(f, "the configuration has {count} problem{}", if count == 1 { "" } else { "s" })?;
        for problem in &self.problems {
            write!(f, "\n  {}: {}", problem.setting, problem.advice)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    pub(crate) fn from_problems(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let mut problems = Problems::default();
    problems.names(config);
    problems.sizes(config);
    problems.durations(config);
    problems.retry(config);
    problems.mode(config);
    ConfigError::from_problems(problems.0)
}

/// The longest interval, timeout and lease.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The longest age. No database can subtract more from its clock.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add_if(&mut self, wrong: bool, setting: &str, advice: impl Into<String>) {
        if wrong {
            self.0.push(Problem::new(setting, advice));
        }
    }

    fn names(&mut self, config: &Config) {
        let name = &config.name;
        let wrong = name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control);
        self.add_if(wrong, "name", "must be 1 to 64 characters without control characters");
        let prefix = &config.metrics.prefix;
        let good = prefix.starts_with(|c: char| c.is_ascii_alphabetic())
            && prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_')
            && prefix.split('.').all(|part| !part.is_empty());
        self.add_if(
            !good,
            "metrics.prefix",
            "must be letters, digits and underscores, a letter first, with single dots between them",
        );
    }

    fn sizes(&mut self, config: &Config) {
        self.within("workers", config.workers.unwrap_or(1), 1, 10_000);
        self.within("queue.hot", config.queue.hot, 1, 1_000_000);
        self.within("queue.cold", config.queue.cold, 1, 1_000_000);
        self.within("poller.batch", config.poller.batch, 1, 10_000);
        self.within("purge.batch", config.purge.batch, 1, 100_000);
        self.within("payload_bytes", config.payload_bytes, 1, 1 << 30);
        let bytes = config.queue.bytes;
        self.add_if(
            bytes < config.payload_bytes,
            "queue.bytes",
            format!(
                "is {bytes}, smaller than one payload (payload_bytes = {}): raise it",
                config.payload_bytes
            ),
        );
    }

    fn within(&mut self, setting: &str, value: usize, low: usize, high: usize) {
        self.add_if(
            value < low || value > high,
            setting,
            format!("is {value}, must be between {low} and {high}"),
        );
    }

    fn durations(&mut self, config: &Config) {
        let lease = &config.lease;
        for (setting, value, low) in [
            ("poller.interval", config.poller.interval, Duration::from_millis(1)),
            ("lease.duration", lease.duration, Duration::from_millis(100)),
            ("lease.hot", lease.hot, Duration::from_millis(100)),
            ("purge.interval", config.purge.interval, Duration::from_millis(1)),
            ("handler_timeout", config.handler_timeout, Duration::from_millis(1)),
            ("publish_timeout", config.publish_timeout, Duration::from_millis(1)),
            ("store_timeout", config.store_timeout, Duration::from_millis(1)),
        ] {
            self.add_if(
                value < low || value > DAY,
                setting,
                format!("is {value:?}, must be between {low:?} and one day"),
            );
        }
        self.add_if(config.drain > DAY, "drain", "is longer than a day: shorten it");
        self.add_if(
            config.poller.skip_recent > DAY,
            "poller.skip_recent",
            "is longer than a day: shorten it",
        );
        for (setting, value) in [
            ("no_route_grace", config.no_route_grace),
            ("busy_grace", Some(config.busy_grace)),
            ("purge.done.after", Some(config.purge.done.after)),
            ("purge.dead.after", Some(config.purge.dead.after)),
            ("purge.age", config.purge.age),
        ] {
            self.add_if(value > Some(CENTURY), setting, "is longer than a hundred years: shorten it");
        }
        let interval = config.poller.interval;
        self.add_if(
            config.poller.busy_interval.is_some_and(|busy| busy.is_zero() || busy > interval),
            "poller.busy_interval",
            "must be longer than zero and at most poller.interval",
        );
    }

    fn retry(&mut self, config: &Config) {
        let Some(retry) = &config.retry else { return };
        self.add_if(retry.max_attempts == 0, "retry.max_attempts", "is 0: 1 means no retry");
        self.add_if(
            retry.base_delay.is_zero() && retry.max_attempts > 1,
            "retry.base_delay",
            "is zero: an event would spend all its attempts within a moment",
        );
        self.add_if(
            retry.base_delay > retry.max_delay,
            "retry.base_delay",
            format!("is longer than retry.max_delay ({:?})", retry.max_delay),
        );
        self.add_if(
            retry.max_delay > RetryPolicy::LONGEST_DELAY,
            "retry.max_delay",
            "is longer than a year: shorten it",
        );
        let (low, high) = retry.jitter;
        let good = low.is_finite() && high.is_finite() && low >= 0.0 && low <= high && high <= 10.0;
        self.add_if(!good, "retry.jitter", "must be two numbers from 0 to 10, the smaller first");
    }

    fn mode(&mut self, config: &Config) {
        let mode = config.mode;
        let strict = mode == Mode::Strict;
        self.add_if(
            strict && config.workers.is_some_and(|n| n != 1),
            "workers",
            "strict mode has exactly one worker: leave it out",
        );
        self.add_if(
            strict && config.retry.as_ref().is_some_and(|retry| retry.max_attempts != 1),
            "retry",
            "strict mode tries once, because a retry would let later events overtake: leave it out",
        );
        self.add_if(
            strict && config.no_route_grace.is_some_and(|grace| !grace.is_zero()),
            "no_route_grace",
            "in strict mode an event that waits would be overtaken: leave it out",
        );
        self.add_if(
            mode == Mode::WriterOnly && (config.workers.is_some() || config.retry.is_some()),
            "mode",
            "writer_only runs no engine: leave out workers and retry",
        );
        for (setting, is_set) in [
            ("poller", config.poller != PollerConfig::default()),
            ("queue", config.queue != QueueConfig::default()),
            ("lease", config.lease != LeaseConfig::default()),
        ] {
            self.add_if(
                mode == Mode::WriterOnly && is_set,
                setting,
                "writer_only runs no engine: leave it out",
            );
        }
        self.add_if(
            mode != Mode::WriterOnly && config.purge.age.is_some(),
            "purge.age",
            "deletes rows of any status, delivered or not: only writer_only may do that",
        );
        self.add_if(
            mode == Mode::WriterOnly && config.purge.age.is_some_and(|age| age.is_zero()),
            "purge.age",
            "is zero: rows would be deleted before a relay can read them",
        );
        self.add_if(
            mode == Mode::WriterOnly && config.purge.on_done != OnDone::Keep,
            "purge.on_done",
            "writer_only delivers nothing: leave it out",
        );
    }
}
