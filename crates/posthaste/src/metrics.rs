//! The metrics of an outbox, through the `metrics` facade.
//!
//! Handles are taken when the engine starts, because a handle that was taken before the application installed its
//! recorder would do nothing. Label values come from the configuration only.

use metrics::{Counter, Gauge, Histogram};

use crate::config::Settings;

/// Every handle of one outbox.
pub(crate) struct Metrics {
    pub(crate) hot_enqueued: Counter,
    pub(crate) hot_dropped: Counter,
    pub(crate) hot_skipped_delayed: Counter,
    pub(crate) cold_enqueued: Counter,
    pub(crate) write_duplicates: Counter,
    pub(crate) success: Counter,
    pub(crate) failure: Counter,
    pub(crate) dead: Counter,
    pub(crate) deferred: Counter,
    pub(crate) unreachable: Counter,
    pub(crate) busy: Counter,
    pub(crate) parked: Counter,
    pub(crate) lease_conflicts: Counter,
    pub(crate) late_done: Counter,
    pub(crate) store_errors: Counter,
    pub(crate) hot_depth: Gauge,
    pub(crate) cold_depth: Gauge,
    pub(crate) held: Gauge,
    pub(crate) lag_ms: Gauge,
    pub(crate) settle_batch: Histogram,
    /// One per route, by index; the last one is for events without a route.
    pub(crate) routes: Vec<RouteMetrics>,
}

/// The handles of one route.
pub(crate) struct RouteMetrics {
    pub(crate) duration: Histogram,
    pub(crate) latency: Histogram,
    pub(crate) breaker_open: Gauge,
}

impl Metrics {
    pub(crate) fn new<'a>(settings: &Settings, routes: impl Iterator<Item = &'a str>) -> Self {
        let name = Name { prefix: &settings.metrics_prefix, outbox: &settings.name };
        Self {
            hot_enqueued: name.counter("enqueue.hot"),
            hot_dropped: name.counter("enqueue.hot.dropped"),
            hot_skipped_delayed: name.counter("enqueue.hot.skipped.delayed"),
            cold_enqueued: name.counter("enqueue.cold"),
            write_duplicates: name.counter("write.duplicates"),
            success: name.counter("dispatch.success"),
            failure: name.counter("dispatch.failure"),
            dead: name.counter("dispatch.dead"),
            deferred: name.counter("dispatch.deferred"),
            unreachable: name.counter("dispatch.unreachable"),
            busy: name.counter("dispatch.busy"),
            parked: name.counter("parked"),
            lease_conflicts: name.counter("lease.conflicts"),
            late_done: name.counter("settle.late.done"),
            store_errors: name.counter("store.errors"),
            hot_depth: name.gauge("queue.hot.depth"),
            cold_depth: name.gauge("queue.cold.depth"),
            held: name.gauge("held"),
            lag_ms: name.gauge("lag.oldest.ms"),
            settle_batch: name.histogram("settle.batch.size"),
            routes: routes.chain(std::iter::once("none")).map(|route| name.route(route)).collect(),
        }
    }

    /// Resets the gauges of an engine that has stopped. Otherwise they would keep their last value for as long as the
    /// process lives.
    pub(crate) fn close(&self) {
        for gauge in [&self.hot_depth, &self.cold_depth, &self.held, &self.lag_ms] {
            gauge.set(0.0);
        }
    }

    /// Resets the breaker gauges of an engine that stops. A gauge that stayed at 1 would raise an alarm for ever.
    pub(crate) fn close_breakers(&self) {
        for route in &self.routes {
            route.breaker_open.set(0.0);
        }
    }
}

struct Name<'a> {
    prefix: &'a str,
    outbox: &'a str,
}

impl Name<'_> {
    fn counter(&self, name: &str) -> Counter {
        metrics::counter!(self.full(name), "outbox" => self.outbox.to_owned())
    }

    fn gauge(&self, name: &str) -> Gauge {
        metrics::gauge!(self.full(name), "outbox" => self.outbox.to_owned())
    }

    fn histogram(&self, name: &str) -> Histogram {
        metrics::histogram!(self.full(name), "outbox" => self.outbox.to_owned())
    }

    fn route(&self, route: &str) -> RouteMetrics {
        let labels = [("outbox", self.outbox.to_owned()), ("route", route.to_owned())];
        RouteMetrics {
            duration: metrics::histogram!(self.full("dispatch.duration.seconds"), &labels),
            latency: metrics::histogram!(self.full("latency.seconds"), &labels),
            breaker_open: metrics::gauge!(self.full("breaker.open"), &labels),
        }
    }

    fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}
