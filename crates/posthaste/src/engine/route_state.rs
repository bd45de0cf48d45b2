//! The state of each route: closed by its breaker or by an operator, reopened, or crowded.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use super::EngineState;
use super::breaker::Breaker;
use super::poller::OTHERS_UNPARK_INTERVAL;
use crate::config::Settings;
use crate::error::StoreError;
use crate::mutex::lock;
use crate::route::ParkReason;
use crate::store::{Claimed, Lease, Park, Unpark};

/// The state of every route, by index. Events without a route have none, because nothing closes them.
#[derive(Debug)]
pub(super) struct RouteStates(Vec<RouteState>);

#[derive(Debug)]
struct RouteState {
    /// Whether the destination is reachable. Written by the workers with each outcome, and by the poller for probes.
    breaker: Mutex<Breaker>,
    /// Whether an operator has paused the route. Written by each poll from the store's reply.
    paused: AtomicBool,
    /// Was closed or crowded, so parked rows may have to come back. Set where the route reopens, reset by the poller.
    reopened: AtomicBool,
    /// Uses its full share of the queue; further events are parked until it drains.
    crowded: AtomicBool,
}

impl RouteStates {
    pub(super) fn new(routes: usize) -> Self {
        // A previous engine may have parked rows, so every route is unparked once at the start.
        let state = || RouteState {
            breaker: Mutex::default(),
            paused: AtomicBool::new(false),
            reopened: AtomicBool::new(true),
            crowded: AtomicBool::new(false),
        };
        Self((0..routes).map(|_| state()).collect())
    }
}

impl RouteState {
    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    fn is_closed(&self) -> bool {
        self.is_paused() || self.with_breaker(|breaker| breaker.is_open())
    }

    fn with_breaker<T>(&self, ask: impl FnOnce(&mut Breaker) -> T) -> T {
        ask(&mut lock(&self.breaker))
    }
}

/// Park reasons of rows in the store that name a route which this engine does not have, for example after a rename.
#[derive(Debug, Default)]
pub(super) struct OthersParked {
    /// Names whose rows have to be brought back.
    waiting: BTreeSet<String>,
    /// Names whose rows were all brought back. Kept, so that each name is handled only once.
    done: BTreeSet<String>,
    /// The next page of rows is brought back at this instant at the earliest.
    next: Option<Instant>,
}

impl OthersParked {
    /// Adds a name. Bounded by the number of names that a claim returns, because routes may have been renamed any
    /// number of times.
    fn see(&mut self, name: &str) {
        let full = self.waiting.len() + self.done.len() >= Claimed::MAX_PARKED_NAMES;
        if !full && !self.done.contains(name) {
            self.waiting.insert(name.to_owned());
        }
    }
}

/// Held while parked events of a route are brought back. Unless all came back, dropping the guard marks the route as
/// reopened again: after a full page, an error, or a poll that was dropped.
pub(super) struct UnparkGuard<'a>(Option<&'a RouteState>);

impl UnparkGuard<'_> {
    /// No parked event is left.
    pub(super) fn got_all(mut self) {
        self.0 = None;
    }
}

impl Drop for UnparkGuard<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.0 {
            state.reopened.store(true, Ordering::Release);
        }
    }
}

impl EngineState {
    /// The name of a route, as it is in `parked`.
    pub(super) fn route_name(&self, route: usize) -> &str {
        self.routes.get(route).map_or("", |route| &route.name)
    }

    /// Whether an operator has paused this route.
    pub(super) fn is_paused(&self, route: usize) -> bool {
        self.route_states.0.get(route).is_some_and(RouteState::is_paused)
    }

    /// Whether this route is closed: at most a probe may start.
    pub(super) fn is_closed(&self, route: usize) -> bool {
        self.route_states.0.get(route).is_some_and(RouteState::is_closed)
    }

    pub(super) fn closed_routes(&self) -> usize {
        self.route_states.0.iter().filter(|state| state.is_closed()).count()
    }

    /// Calls the breaker of a route. `None` for events without a route.
    pub(super) fn breaker<T>(&self, route: usize, ask: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        self.route_states.0.get(route).map(|state| state.with_breaker(ask))
    }

    /// Whether an event may be sent as a probe now. Never on a paused route.
    pub(super) fn try_probe(&self, route: usize) -> bool {
        let (Some(state), Some(entry)) = (self.route_states.0.get(route), self.routes.get(route)) else {
            return false;
        };
        if state.is_paused() {
            return false;
        }
        let settings = &self.settings;
        let timeouts = entry
            .targets
            .iter()
            .map(|target| entry.timeout_of(target, settings.handler_timeout, settings.publish_timeout));
        let within = timeouts.sum();
        state.with_breaker(|breaker| breaker.try_probe(Instant::now(), within))
    }

    /// Routes to which a probe may be sent now.
    pub(super) fn routes_to_probe(&self) -> Vec<usize> {
        let now = Instant::now();
        let routes = self.route_states.0.iter().enumerate();
        routes
            .filter(|(_, state)| !state.is_paused())
            .filter(|(_, state)| {
                state.with_breaker(|breaker| breaker.next_probe()).is_some_and(|at| at <= now)
            })
            .map(|(route, _)| route)
            .collect()
    }

    /// When the next probe of any route may be sent.
    pub(super) fn next_probe(&self) -> Option<Instant> {
        let open = self.route_states.0.iter().filter(|state| !state.is_paused());
        open.filter_map(|state| state.with_breaker(|breaker| breaker.next_probe())).min()
    }

    /// Updates the gauge after the breaker may have changed, logs an open one, and wakes the poller for the probe.
    pub(super) fn note_breaker(&self, route: usize) {
        let open = self.breaker(route, |breaker| breaker.is_open()).unwrap_or(false);
        // An engine that stops must not report an outage: another engine may report the same route.
        if !self.is_stopping() {
            self.metrics.routes[route].breaker_open.set(f64::from(u8::from(open)));
        }
        if open && self.warn_limit.allows(Instant::now()) {
            tracing::warn!(
                outbox = %self.settings.name,
                route = self.route_name(route),
                "destination cannot be reached; its events wait"
            );
        }
        if open {
            // The poller has to take the time of the probe into account.
            self.poll_notifier.notify();
        }
    }

    /// The breaker closed: the poller brings parked events back.
    pub(super) fn route_reopened(&self, route: usize) {
        tracing::info!(outbox = %self.settings.name, route = self.route_name(route), "destination is back");
        self.note_breaker(route);
        if let Some(state) = self.route_states.0.get(route) {
            state.reopened.store(true, Ordering::Release);
        }
        self.poll_notifier.notify();
    }

    /// Open routes whose parked events have to come back.
    pub(super) fn reopened_routes(&self) -> Vec<usize> {
        let routes = self.route_states.0.iter().enumerate();
        routes
            .filter(|(_, state)| state.reopened.load(Ordering::Acquire) && !state.is_closed())
            .map(|(route, _)| route)
            .collect()
    }

    /// Begins to bring parked events of this route back. The route is marked as done before the store is called,
    /// because rows that are parked from now on set the mark again.
    pub(super) fn begin_unpark(&self, route: usize) -> UnparkGuard<'_> {
        let state = self.route_states.0.get(route);
        state.inspect(|state| state.reopened.store(false, Ordering::Release));
        UnparkGuard(state)
    }

    /// The route uses its full share of the queue, and further events were parked.
    pub(super) fn set_crowded(&self, route: usize) {
        if let Some(state) = self.route_states.0.get(route) {
            state.crowded.store(true, Ordering::Release);
        }
        // It may have drained before the mark was set.
        self.reopen_if_drained(route);
    }

    /// Brings the parked events of a crowded route back once its part of the queue has drained.
    pub(super) fn reopen_if_drained(&self, route: usize) {
        let Some(state) = self.route_states.0.get(route) else { return };
        if state.crowded.load(Ordering::Acquire) && self.queue.has_drained(route) {
            state.crowded.store(false, Ordering::Release);
            state.reopened.store(true, Ordering::Release);
            self.poll_notifier.notify();
        }
    }

    /// Parks held rows of this route.
    pub(super) async fn park(&self, route: usize, leases: &[Lease]) {
        let name = self.route_name(route);
        self.park_for(ParkReason::Route(name), leases).await;
        self.parked(name);
        self.reopen_if_drained(route);
    }

    /// Parks held rows in one statement. After an error their leases lapse, and they are claimed again.
    pub(super) async fn park_for(&self, reason: ParkReason<'_>, leases: &[Lease]) {
        self.metrics.parked.increment(leases.len() as u64);
        let duration = Settings::park_duration();
        let name = reason.to_string();
        let park = Park::new(&self.owner, leases, &name, duration);
        let _ = self.call("park", self.store.park(&park)).await;
    }

    /// Makes up to `limit` rows that are parked under this name due now. Returns how many.
    pub(super) async fn unpark(&self, name: &str, limit: usize) -> Result<u64, StoreError> {
        self.call("unpark", self.store.unpark(&Unpark::new(name, limit))).await
    }

    /// Takes the store's list of names for which rows are parked. Another engine may have parked the rows because it
    /// alone cannot reach the destination: where the route is open here, the rows are brought back.
    pub(super) fn note_parked(&self, names: &BTreeSet<String>) {
        if names.is_empty() || self.settings.is_strict() {
            return;
        }
        // The current poll brings the rows back, so no notification is needed.
        for name in names {
            self.open_routes_of(name).for_each(|state| state.reopened.store(true, Ordering::Release));
        }
        let is_ours = |route: &str| self.routes.entries().iter().any(|entry| entry.name == route);
        let is_others = |name: &&String| ParkReason::parse(name).route().is_some_and(|route| !is_ours(route));
        let mut others = lock(&self.others_parked);
        names.iter().filter(is_others).for_each(|name| others.see(name));
    }

    /// The next name in [`OthersParked`] whose rows have not been brought back yet. Looks at most once a second, and
    /// returns `None` in between.
    pub(super) fn other_parked(&self, now: Instant) -> Option<String> {
        let mut others = lock(&self.others_parked);
        if others.next.is_some_and(|next| next > now) {
            return None;
        }
        others.next = Some(now + OTHERS_UNPARK_INTERVAL);
        others.waiting.first().cloned()
    }

    /// All rows that were parked under this name were brought back. Rows that are parked under it later wait until they
    /// are due by themselves.
    pub(super) fn brought_back(&self, name: String) {
        let mut others = lock(&self.others_parked);
        others.waiting.remove(&name);
        others.done.insert(name);
    }

    /// Takes the store's list of paused routes.
    pub(super) fn set_paused(&self, paused: &BTreeSet<String>) {
        for (state, entry) in self.route_states.0.iter().zip(self.routes.entries()) {
            let now = paused.contains(&entry.name);
            let before = state.paused.swap(now, Ordering::AcqRel);
            if before != now {
                tracing::info!(outbox = %self.settings.name, route = %entry.name, paused = now, "pause changed");
            }
            if before && !now {
                state.reopened.store(true, Ordering::Release);
                self.poll_notifier.notify();
            }
        }
    }

    /// Parks events of a closed route that a worker has already taken. An engine that stops releases them instead,
    /// because it would not be there to bring them back.
    pub(super) fn park_or_give_back(&self, route: usize, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        if self.settings.is_strict() || self.is_stopping() {
            self.give_back(leases);
        } else {
            self.write_back.park(route, leases);
        }
    }

    /// Events were parked. If their route was reopened in the meantime they have to come back, or they would wait for
    /// the whole park duration.
    pub(super) fn parked(&self, parked: &str) {
        for state in self.open_routes_of(parked) {
            state.reopened.store(true, Ordering::Release);
            self.poll_notifier.notify();
        }
    }

    /// The route for which rows are parked under this name, if it is open and not crowded.
    fn open_routes_of(&self, parked: &str) -> impl Iterator<Item = &RouteState> {
        let route = ParkReason::parse(parked).route();
        let routes = self.route_states.0.iter().zip(self.routes.entries());
        let is_open = |state: &RouteState| !state.is_closed() && !state.crowded.load(Ordering::Acquire);
        routes
            .filter(move |(state, entry)| route == Some(&*entry.name) && is_open(state))
            .map(|(state, _)| state)
    }

    /// Strict mode: the destination cannot be reached, so every queued event is released too.
    pub(super) fn halt(&self) {
        self.give_back_queued(&self.queue.take_all());
    }
}
