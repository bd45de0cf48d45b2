//! The configuration of an outbox: every setting with its default, from code or from a file.

#[cfg(feature = "serde")]
mod duration;
mod error;
mod retry;
mod settings;

use std::time::Duration;

pub use error::{ConfigError, Problem, ProblemKind};
pub use retry::RetryPolicy;
pub(crate) use settings::Settings;

use crate::event::Limits;
use crate::store::OnDone;

/// Every setting of an outbox.
///
/// With the feature `serde` it can be read from a file. Unknown keys are refused, and durations are written as `"5s"`,
/// `"200ms"` or `"7days"`. Options that are left out have the default of the mode. [`validate`](Self::validate) reports
/// an option that makes no sense in the mode.
///
/// In code, start from one of its constructors and set fields:
///
/// ```
/// use posthaste::{Config, Mode};
///
/// let mut config = Config::relay();
/// config.mode = Mode::SingleNode;
/// config.workers = Some(8);
/// config.poller.batch = 100;
/// config.validate()?;
/// # Ok::<(), posthaste::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Config {
    /// The name of this outbox in metrics and logs. Default: `outbox`.
    pub name: String,
    /// The mode. Default: [`Mode::MultiNode`].
    pub mode: Mode,
    /// How many deliveries run at the same time. Default: 4. Strict mode has exactly one worker.
    pub workers: Option<usize>,
    /// The queues between store, commit and workers. Default: [`QueueConfig::default`].
    pub queue: QueueConfig,
    /// When to try again. Default: [`RetryPolicy::default`]. Strict mode tries once.
    pub retry: Option<RetryPolicy>,
    /// How the store is polled. Default: [`PollerConfig::default`].
    pub poller: PollerConfig,
    /// How long events are leased. Default: [`LeaseConfig::default`].
    pub lease: LeaseConfig,
    /// What happens to old rows. Default: [`PurgeConfig::default`].
    pub purge: PurgeConfig,
    /// How metrics are named. Default: [`MetricsConfig::default`].
    pub metrics: MetricsConfig,
    /// How long a handler may take. Default: 60 s.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub handler_timeout: Duration,
    /// How long a publisher may take. Default: 10 s.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub publish_timeout: Duration,
    /// How long a call to the store may take. Default: 10 s.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub store_timeout: Duration,
    /// How long a shutdown waits for queued and running events. Default: 5 s.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub drain: Duration,
    /// How long an event without a route waits for a node that has one. Default: 10 min in multi-node mode; otherwise
    /// zero, so that the event is DEAD immediately.
    #[cfg_attr(feature = "serde", serde(with = "duration::option"))]
    pub no_route_grace: Option<Duration>,
    /// How long a busy destination (a full queue, a rate limit) may turn an event away before the event is DEAD.
    /// Default: 1 day.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub busy_grace: Duration,
    /// The largest payload that may be written, in bytes. Default: 1 MiB.
    pub payload_bytes: usize,
}

/// The modes of an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Mode {
    /// Any number of engines on this table, each with hot path and poller. The default.
    #[default]
    MultiNode,
    /// The only engine on this table. An event without a route is DEAD immediately.
    SingleNode,
    /// One worker, one attempt, poller only, in the order of insertion.
    Strict,
    /// No engine: a relay in another process, or change data capture, delivers.
    WriterOnly,
}

/// The bounded queues between the store, the hot path and the workers.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct QueueConfig {
    /// The most hot events that wait. Default: 1000.
    pub hot: usize,
    /// The most claimed events that wait. Default: 1000.
    pub cold: usize,
    /// The most bytes of events that wait or are being delivered. One event may exceed it. Default: 16 MiB.
    pub bytes: usize,
    /// Which queue comes first. Default: [`Fairness::Weighted`].
    pub fairness: Fairness,
}

/// How workers choose between the hot and the cold queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Fairness {
    /// Two hot to one cold, so that neither starves. The default.
    #[default]
    Weighted,
    /// Cold events only while no hot event waits.
    HotFirst,
}

/// The poller.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct PollerConfig {
    /// The longest pause between two polls. Default: 5 s.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub interval: Duration,
    /// The pause after a poll that found events. It doubles up to `interval` while nothing is found. Default:
    /// `interval`, so the pause does not change.
    #[cfg_attr(feature = "serde", serde(with = "duration::option"))]
    pub busy_interval: Option<Duration>,
    /// The most events per claim. Default: 50.
    pub batch: usize,
    /// Ignores events that were inserted less than this ago. Default: zero.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub skip_recent: Duration,
}

/// How long an engine holds an event before another engine may claim it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct LeaseConfig {
    /// The lease of a claimed event. It is renewed when a third of it is over. Default: 30 s.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub duration: Duration,
    /// The lease with which a row is born on the hot path. Default: 10 s.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub hot: Duration,
}

/// What happens to old rows.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct PurgeConfig {
    /// What happens to a row when it is delivered. Default: kept.
    pub on_done: OnDone,
    /// What happens to DONE rows that were kept. Default: deleted after 7 days.
    pub done: Retention,
    /// What happens to DEAD rows. Default: kept until an operator decides.
    pub dead: Retention,
    /// Deletes rows of any status at this age. Only in writer-only mode. Default: never.
    #[cfg_attr(feature = "serde", serde(with = "duration::option"))]
    pub age: Option<Duration>,
    /// Deletes archived rows at this age. Default: never.
    #[cfg_attr(feature = "serde", serde(with = "duration::option"))]
    pub archived: Option<Duration>,
    /// The pause between two purges. Default: 1 h.
    #[cfg_attr(feature = "serde", serde(with = "duration"))]
    pub interval: Duration,
    /// The most rows per statement. Default: 500.
    pub batch: usize,
}

/// How long rows of one status are kept, and what happens to them then.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct Retention {
    /// The action: `keep` (for ever), `delete` or `archive`.
    pub action: OnDone,
    /// The age for the action. Ignored by `keep`. Default: 7 days.
    #[cfg_attr(feature = "serde", serde(default = "seven_days", with = "duration"))]
    pub after: Duration,
}

/// The names of metrics.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// The prefix of every name. Default: `outbox`.
    pub prefix: String,
}

impl Config {
    /// Settings for a relay: larger batches, a longer drain, and polls every 50 ms while events flow, slowing down to
    /// 250 ms when idle.
    pub fn relay() -> Self {
        Self {
            poller: PollerConfig {
                interval: Duration::from_millis(250),
                busy_interval: Some(Duration::from_millis(50)),
                batch: 500,
                ..PollerConfig::default()
            },
            drain: Duration::from_secs(30),
            ..Self::default()
        }
    }

    /// Settings of the classic polling publisher: 10 events every 5 s by one worker, five attempts with 100, 200, 400
    /// and 800 ms between them, no jitter, DONE rows kept for 30 days.
    pub fn kafka_polling() -> Self {
        Self {
            workers: Some(1),
            retry: Some(RetryPolicy {
                max_attempts: 5,
                base_delay: Duration::from_millis(100),
                max_delay: Duration::from_millis(1600),
                jitter: (1.0, 1.0),
            }),
            poller: PollerConfig { batch: 10, ..PollerConfig::default() },
            purge: PurgeConfig::default()
                .with_done(Retention::delete_after(Duration::from_secs(30 * 24 * 3600))),
            ..Self::default()
        }
    }

    /// Checks whether these settings are valid together. The error lists every problem.
    pub fn validate(&self) -> Result<(), ConfigError> {
        error::check(self)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "outbox".to_owned(),
            mode: Mode::default(),
            workers: None,
            queue: QueueConfig::default(),
            retry: None,
            poller: PollerConfig::default(),
            lease: LeaseConfig::default(),
            purge: PurgeConfig::default(),
            metrics: MetricsConfig::default(),
            handler_timeout: Duration::from_secs(60),
            publish_timeout: Duration::from_secs(10),
            store_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            no_route_grace: None,
            busy_grace: Duration::from_secs(24 * 3600),
            payload_bytes: Limits::PAYLOAD_BYTES,
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { hot: 1000, cold: 1000, bytes: 16 * 1024 * 1024, fairness: Fairness::default() }
    }
}

impl QueueConfig {
    /// Sets the most hot events that wait. Default: 1000.
    #[must_use]
    pub fn with_hot(self, hot: usize) -> Self {
        Self { hot, ..self }
    }

    /// Sets the most claimed events that wait. Default: 1000.
    #[must_use]
    pub fn with_cold(self, cold: usize) -> Self {
        Self { cold, ..self }
    }

    /// Sets the most bytes of events that wait or are being delivered. Default: 16 MiB.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// Sets which queue comes first. Default: [`Fairness::Weighted`].
    #[must_use]
    pub fn with_fairness(self, fairness: Fairness) -> Self {
        Self { fairness, ..self }
    }
}

impl Default for PollerConfig {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), busy_interval: None, batch: 50, skip_recent: Duration::ZERO }
    }
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self { duration: Duration::from_secs(30), hot: Duration::from_secs(10) }
    }
}

impl Default for PurgeConfig {
    fn default() -> Self {
        Self {
            on_done: OnDone::default(),
            done: Retention::delete_after(seven_days()),
            dead: Retention::KEEP,
            age: None,
            archived: None,
            interval: Duration::from_secs(3600),
            batch: 500,
        }
    }
}

impl PurgeConfig {
    /// Sets what happens to a row when it is delivered. Default: kept.
    #[must_use]
    pub fn with_on_done(self, on_done: OnDone) -> Self {
        Self { on_done, ..self }
    }

    /// Sets what happens to DONE rows that were kept. Default: deleted after 7 days.
    #[must_use]
    pub fn with_done(self, done: Retention) -> Self {
        Self { done, ..self }
    }

    /// Sets what happens to DEAD rows. Default: kept.
    #[must_use]
    pub fn with_dead(self, dead: Retention) -> Self {
        Self { dead, ..self }
    }

    /// Deletes archived rows at this age. Default: never.
    #[must_use]
    pub fn with_archived(self, age: Duration) -> Self {
        Self { archived: Some(age), ..self }
    }

    /// Sets the pause between two purges. Default: 1 h.
    #[must_use]
    pub fn with_interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Sets the most rows per statement. Default: 500.
    #[must_use]
    pub fn with_batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }
}

impl Retention {
    /// Kept for ever.
    pub const KEEP: Self = Self { action: OnDone::Keep, after: seven_days() };

    /// Deleted at this age.
    pub const fn delete_after(after: Duration) -> Self {
        Self { action: OnDone::Delete, after }
    }

    /// Moved to the archive at this age.
    pub const fn archive_after(after: Duration) -> Self {
        Self { action: OnDone::Archive, after }
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { prefix: "outbox".to_owned() }
    }
}

const fn seven_days() -> Duration {
    Duration::from_secs(7 * 24 * 3600)
}
