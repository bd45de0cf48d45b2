//! The state of each route: whether its breaker or an operator has closed it, and whether it was reopened.

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

/// The changing part of every route. Events without a route have none: nothing closes them.
#[derive(Debug)]
pub(super) struct RouteStates(Vec<RouteState>);

#[derive(Debug)]
struct RouteState {
    breaker: Mutex<Breaker>,
    paused: AtomicBool,
    /// Was closed or crowded, and may have parked rows that should come back.
    reopened: AtomicBool,
    /// Has its full share of the queue; what came beyond it is parked until it drains.
    crowded: AtomicBool,
}

impl RouteStates {
    pub(super) fn new(routes: usize) -> Self {
        // An engine before this one may have parked rows: at the start every route is asked once.
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

/// Names that rows are parked for and that are no route of this engine.
#[derive(Debug, Default)]
pub(super) struct OthersParked {
    waiting: BTreeSet<String>,
    done: BTreeSet<String>,
    /// Not before then is the next page asked for.
    next: Option<Instant>,
}

impl OthersParked {
    /// Routes may have been renamed any number of times; as many names as a claim names are enough.
    fn see(&mut self, name: &str) {
        let full = self.waiting.len() + self.done.len() >= Claimed::MAX_PARKED_NAMES;
        if !full && !self.done.contains(name) {
            self.waiting.insert(name.to_owned());
        }
    }
}

/// Held while parked events of a route are brought back. Unless all came back, the route stays marked as reopened
/// when the guard is dropped: after a short answer, an error, and a poll that was dropped.
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
    /// The name of a route, as it stands in `parked`.
    pub(super) fn route_name(&self, route: usize) -> &str {
        self.routes.get(route).map_or("", |route| &route.name)
    }

    /// Whether an operator has paused this route.
    pub(super) fn is_paused(&self, route: usize) -> bool {
        self.route_states.0.get(route).is_some_and(RouteState::is_paused)
    }

    /// Whether nothing of this route may be started but a probe.
    pub(super) fn is_closed(&self, route: usize) -> bool {
        self.route_states.0.get(route).is_some_and(RouteState::is_closed)
    }

    pub(super) fn closed_routes(&self) -> usize {
        self.route_states.0.iter().filter(|state| state.is_closed()).count()
    }

    /// Asks a route's breaker; none for events without a route.
    pub(super) fn breaker<T>(&self, route: usize, ask: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        self.route_states.0.get(route).map(|state| state.with_breaker(ask))
    }

    /// Whether an event may go out to see if the destination is back. Never on a paused route.
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

    /// Routes that a probe may go to now.
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

    /// When the next probe of any route may go.
    pub(super) fn next_probe(&self) -> Option<Instant> {
        let open = self.route_states.0.iter().filter(|state| !state.is_paused());
        open.filter_map(|state| state.with_breaker(|breaker| breaker.next_probe())).min()
    }

    /// A breaker may have changed: shows it in the gauge.
    pub(super) fn note_breaker(&self, route: usize) {
        let open = self.breaker(route, |breaker| breaker.is_open()).unwrap_or(false);
        // One that stops knows of no outage any more, and another engine may show the same route.
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
            // The poller's next wait must take the probe into account.
            self.poll_notifier.notify();
        }
    }

    /// A breaker closed: the poller brings parked events back.
    pub(super) fn route_reopened(&self, route: usize) {
        tracing::info!(outbox = %self.settings.name, route = self.route_name(route), "destination is back");
        self.note_breaker(route);
        if let Some(state) = self.route_states.0.get(route) {
            state.reopened.store(true, Ordering::Release);
        }
        self.poll_notifier.notify();
    }

    /// Routes whose parked events should come back, and that are open.
    pub(super) fn reopened_routes(&self) -> Vec<usize> {
        let routes = self.route_states.0.iter().enumerate();
        routes
            .filter(|(_, state)| state.reopened.load(Ordering::Acquire) && !state.is_closed())
            .map(|(route, _)| route)
            .collect()
    }

    /// Begins to bring parked events of this route back. What is parked from now on is another
    /// matter, so the route counts as done before the store is asked.
    pub(super) fn begin_unpark(&self, route: usize) -> UnparkGuard<'_> {
        let state = self.route_states.0.get(route);
        state.inspect(|state| state.reopened.store(false, Ordering::Release));
        UnparkGuard(state)
    }

    /// A route has its full share of the queue, and more of its events were parked.
    pub(super) fn set_crowded(&self, route: usize) {
        if let Some(state) = self.route_states.0.get(route) {
            state.crowded.store(true, Ordering::Release);
        }
        // It may have drained before this was known.
        self.reopen_if_drained(route);
    }

    /// A crowded route whose part of the queue has drained gets its parked events back.
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

    /// Parks held rows in one statement. On an error their leases lapse, and they are claimed again.
    pub(super) async fn park_for(&self, reason: ParkReason<'_>, leases: &[Lease]) {
        self.metrics.parked.increment(leases.len() as u64);
        let duration = Settings::park_duration();
        let name = reason.to_string();
        let park = Park::new(&self.owner, leases, &name, duration);
        let _ = self.call("park", self.store.park(&park)).await;
    }

    /// Makes up to `limit` rows due that are parked under this name; returns how many.
    pub(super) async fn unpark(&self, name: &str, limit: usize) -> Result<u64, StoreError> {
        self.call("unpark", self.store.unpark(&Unpark::new(name, limit))).await
    }

    /// The store says what rows are parked for. Another engine may have parked them because it alone cannot
    /// reach their destination: if their route is open here, they come back.
    pub(super) fn note_parked(&self, names: &BTreeSet<String>) {
        if names.is_empty() || self.settings.is_strict() {
            return;
        }
        // This poll brings them back: no notification is needed.
        for name in names {
            self.open_routes_of(name).for_each(|state| state.reopened.store(true, Ordering::Release));
        }
        let is_ours = |route: &str| self.routes.entries().iter().any(|entry| entry.name == route);
        let is_others = |name: &&String| ParkReason::parse(name).route().is_some_and(|route| !is_ours(route));
        let mut others = lock(&self.others_parked);
        names.iter().filter(is_others).for_each(|name| others.see(name));
    }

    /// A name that is no route here, under which rows may be parked that nobody has brought back yet; none
    /// within a second of the last.
    pub(super) fn other_parked(&self, now: Instant) -> Option<String> {
        let mut others = lock(&self.others_parked);
        if others.next.is_some_and(|next| next > now) {
            return None;
        }
        others.next = Some(now + OTHERS_UNPARK_INTERVAL);
        others.waiting.first().cloned()
    }

    /// All rows that were parked under this name came back. What is parked under it from now on is left
    /// to its time.
    pub(super) fn brought_back(&self, name: String) {
        let mut others = lock(&self.others_parked);
        others.waiting.remove(&name);
        others.done.insert(name);
    }

    /// The store says which routes are paused.
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

    /// Parks events of a closed route that a worker has taken already. An engine that stops leaves them to
    /// others: nobody would bring them back when the route is open again.
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

    /// Events were parked. If their route was reopened while that was on its way they have to come
    /// back, or they would wait for the whole park.
    pub(super) fn parked(&self, parked: &str) {
        for state in self.open_routes_of(parked) {
            state.reopened.store(true, Ordering::Release);
            self.poll_notifier.notify();
        }
    }

    /// The route that rows are parked for under this name, if it is open and has room.
    fn open_routes_of(&self, parked: &str) -> impl Iterator<Item = &RouteState> {
        let route = ParkReason::parse(parked).route();
        let routes = self.route_states.0.iter().zip(self.routes.entries());
        let is_open = |state: &RouteState| !state.is_closed() && !state.crowded.load(Ordering::Acquire);
        routes
            .filter(move |(state, entry)| route == Some(&*entry.name) && is_open(state))
            .map(|(state, _)| state)
    }

    /// Strict mode: a destination is not there, so everything behind this event goes back too.
    pub(super) fn halt(&self) {
        self.give_back_queued(&self.queue.take_all());
    }
}
