//! A configuration with every default of its mode filled in.

use std::time::Duration;

use super::{Config, Fairness, LeaseConfig, Mode, PollerConfig, PurgeConfig, QueueConfig, RetryPolicy};
use crate::store::ClaimOrder;

/// What the engine runs on. Unlike [`Config`] it has no options left open.
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

    /// How long a row stays parked when no engine brings it back. Engines whose route is open see what is
    /// parked within a second, so this is for rows that none of them knows. It is long and not the
    /// same for all, so that a large backlog of a closed route does not come round in front of
    /// healthy ones.
    const PARK_DURATION: Duration = Duration::from_secs(3600);

    /// How long to park rows now.
    pub(crate) fn park_duration() -> Duration {
        Self::PARK_DURATION.mul_f64(0.75 + fastrand::f64() / 2.0)
    }

    pub(crate) fn resolve(config: &Config) -> Self {
        let strict = config.mode == Mode::Strict;
        let retry = config.retry.clone().unwrap_or_default();
        let grace = if config.mode == Mode::MultiNode { Duration::from_secs(600) } else { Duration::ZERO };
        Self {
            name: config.name.clone(),
            mode: config.mode,
            hot_path: matches!(config.mode, Mode::SingleNode | Mode::MultiNode),
            workers: if strict { 1 } else { config.workers.unwrap_or(4) },
            queue: config.queue.clone().with_fairness(if strict {
                Fairness::HotFirst
            } else {
                config.queue.fairness
            }),
            retry: if strict { retry.with_max_attempts(1) } else { retry },
            poller: config.poller.clone(),
            order: if strict { ClaimOrder::Seq } else { ClaimOrder::Due },
            lease: config.lease.clone(),
            purge: config.purge.clone(),
            metrics_prefix: config.metrics.prefix.clone(),
            handler_timeout: config.handler_timeout,
            publish_timeout: config.publish_timeout,
            store_timeout: config.store_timeout,
            drain: config.drain,
            no_route_grace: config.no_route_grace.unwrap_or(grace),
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
