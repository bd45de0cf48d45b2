//! Resolved settings: a configuration with every default of its mode filled in.

use std::time::Duration;

use super::{Config, Fairness, LeaseConfig, Mode, PollerConfig, PurgeConfig, QueueConfig, RetryPolicy};
use crate::store::ClaimOrder;

const DEFAULT_WORKERS: usize = 4;
const DEFAULT_NO_ROUTE_GRACE: Duration = Duration::from_secs(600);

impl Config {
    /// The same configuration with the options that were left out set to the defaults of its mode. A writer-only outbox
    /// runs no engine, so its options stay open.
    ///
    /// ```
    /// use posthaste::{Config, RetryPolicy};
    ///
    /// let config = Config::default().resolved();
    /// assert_eq!((config.workers, config.retry), (Some(4), Some(RetryPolicy::default())));
    /// ```
    #[must_use]
    pub fn resolved(&self) -> Self {
        let mut config = self.clone();
        if config.mode == Mode::WriterOnly {
            return config;
        }
        let retry = config.retry.get_or_insert_default();
        let grace = if config.mode == Mode::MultiNode { DEFAULT_NO_ROUTE_GRACE } else { Duration::ZERO };
        config.no_route_grace.get_or_insert(grace);
        config.poller.busy_interval.get_or_insert(config.poller.interval);
        if config.mode == Mode::Strict {
            retry.max_attempts = 1;
            config.workers = Some(1);
            config.queue.fairness = Fairness::HotFirst;
        }
        config.workers.get_or_insert(DEFAULT_WORKERS);
        config
    }
}

/// The settings of a running engine. Unlike [`Config`] it has no open options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) hot_path: bool,
    pub(crate) workers: usize,
    pub(crate) queue: QueueConfig,
    pub(crate) retry: RetryPolicy,
    pub(crate) poller: PollerConfig,
    pub(crate) order: ClaimOrder,
    pub(crate) lease: LeaseConfig,
    pub(crate) purge: PurgeConfig,
    pub(crate) metrics_prefix: String,
    pub(crate) handler_timeout: Duration,
    pub(crate) publish_timeout: Duration,
    pub(crate) store_timeout: Duration,
    pub(crate) drain: Duration,
    pub(crate) no_route_grace: Duration,
    pub(crate) busy_grace: Duration,
}

impl Settings {
    /// The most settlements per statement.
    pub(crate) const SETTLE_BATCH_ROWS: usize = 1000;

    /// How long a row stays parked if no engine brings it back. Engines whose route is open see parked rows within a
    /// second, so this is for rows of routes that no engine has. It is long, and random per statement, so that a large
    /// backlog of a closed route does not become due in front of healthy routes.
    const PARK_DURATION: Duration = Duration::from_secs(3600);

    /// A random duration for rows that are parked now.
    pub(crate) fn park_duration() -> Duration {
        Self::PARK_DURATION.mul_f64(0.75 + fastrand::f64() / 2.0)
    }

    pub(crate) fn resolve(config: &Config) -> Self {
        let config = config.resolved();
        let strict = config.mode == Mode::Strict;
        Self {
            hot_path: matches!(config.mode, Mode::SingleNode | Mode::MultiNode),
            workers: config.workers.unwrap_or(DEFAULT_WORKERS),
            queue: config.queue,
            retry: config.retry.unwrap_or_default(),
            poller: config.poller,
            order: if strict { ClaimOrder::Seq } else { ClaimOrder::Due },
            lease: config.lease,
            purge: config.purge,
            name: config.name,
            mode: config.mode,
            metrics_prefix: config.metrics.prefix,
            handler_timeout: config.handler_timeout,
            publish_timeout: config.publish_timeout,
            store_timeout: config.store_timeout,
            drain: config.drain,
            no_route_grace: config.no_route_grace.unwrap_or_default(),
            busy_grace: config.busy_grace,
        }
    }

    /// The pause between polls while events flow.
    pub(crate) fn busy_interval(&self) -> Duration {
        self.poller.busy_interval.unwrap_or(self.poller.interval)
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.mode == Mode::Strict
    }
}
