//! The circuit breaker of a route: decides whether its destination can be reached.
//!
//! A pure state machine: the caller reports results, and the breaker returns what to do. It opens immediately when a
//! connection fails. Otherwise it opens when three different events in a row get no reply, or the reply that the
//! destination is busy. While it is open, one event at a time is sent as a probe, after 1 s, then 2 s, up to 10 s; any
//! other reply closes it.
//!
//! A single event that makes a healthy destination look unreachable must not close the route for all events. If the
//! destination is unreachable for an event again after other events were delivered, that event is an *outlier*. An
//! outlier cannot open the breaker by itself and waits longer each time. After ten such results it spends attempts.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::event::EventId;

/// How many different events without a reply open the breaker.
const OPEN_AFTER_EVENTS: usize = 3;
const FIRST_PROBE_DELAY: Duration = Duration::from_secs(1);
const MAX_PROBE_DELAY: Duration = Duration::from_secs(10);
/// After this many unreachable results with deliveries in between, an event spends attempts.
const MAX_UNREACHABLE_TIMES: u32 = 10;
/// The most events remembered. Beyond that, all are forgotten and counted from the beginning, which only delays when an
/// outlier spends attempts.
const MAX_OUTLIERS: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// `Some` while the breaker is open.
    open: Option<Open>,
    /// Events that got no reply, or were refused as busy, since the last other reply. At most [`OPEN_AFTER_EVENTS`].
    streak: Vec<EventId>,
    /// Every event for which the destination was unreachable or busy, and that has not been delivered since.
    outliers: HashMap<EventId, Outlier>,
    /// Counts deliveries, to know whether there was one between two failures.
    delivered: u64,
}

#[derive(Debug)]
struct Open {
    /// When the next probe may be sent.
    next_probe: Instant,
    /// The delay before the probe after that one, doubled with each failed probe.
    wait: Duration,
}

#[derive(Debug)]
struct Outlier {
    /// Unreachable results. Those without a delivery of another event in between count once.
    times: u32,
    /// Unreachable and busy results in total.
    tries: u32,
    /// The number of deliveries (`delivered` of the breaker) at the last of these results.
    delivered: u64,
}

/// How the delivery of an event failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    /// There was no connection, as opposed to a connection without a reply.
    pub(crate) connection: bool,
    /// The event was a probe.
    pub(crate) probe: bool,
}

/// What to do with an event that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Wait until the route reopens.
    Park,
    /// The event showed that the destination is unreachable. Wait until the route reopens, apart from the other events,
    /// so that the next probe is another event.
    ParkProbed,
    /// The event showed that the destination is unreachable, not for the first time, and may be the cause. Wait for its
    /// own delay, even if the route reopens.
    PostponeProbed,
    /// The breaker is closed, or the event is an outlier. Wait for the event's own delay, for the n-th time.
    Postpone(u32),
    /// The event is the cause: it spends an attempt.
    Spend,
}

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// When the next probe may be sent. `None` while closed.
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.next_probe)
    }

    /// Whether an event may be the probe now. If so, the next probe is due after `within`, the time in which this one
    /// has to get a reply, plus the current delay.
    pub(crate) fn try_probe(&mut self, now: Instant, within: Duration) -> bool {
        match &mut self.open {
            Some(open) if open.next_probe <= now => {
                open.next_probe = now + within + open.wait;
                true
            }
            _ => false,
        }
    }

    /// The probe gave no information: the next event may be a probe immediately.
    pub(crate) fn probe_again(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            open.next_probe = now;
        }
    }

    /// There was no event to probe with: the next probe is delayed as it is after a failed probe.
    pub(crate) fn postpone_probe(&mut self, now: Instant) {
        if self.is_open() {
            self.open(now);
        }
        // Random, so that nodes do not keep in step. Otherwise another node could take the only event just before this
        // one does, each time.
        if let Some(open) = &mut self.open {
            open.next_probe = now + open.wait.mul_f64(0.5 + fastrand::f64() / 2.0);
        }
    }

    /// The destination accepted an event. Returns whether that closed the breaker.
    pub(crate) fn delivered(&mut self, id: &EventId) -> bool {
        self.delivered += 1;
        self.outliers.remove(id);
        self.answered()
    }

    /// The destination replied, even if it refused. Returns whether that closed the breaker.
    pub(crate) fn answered(&mut self) -> bool {
        self.streak.clear();
        self.open.take().is_some()
    }

    /// The destination was unreachable for this event. Only a failed probe makes the next probe wait longer, because
    /// events that were under way when the breaker opened give no new information.
    pub(crate) fn unreachable(&mut self, id: &EventId, failed: Failed, now: Instant) -> Advice {
        let (times, tries) = self.count(id);
        if times > MAX_UNREACHABLE_TIMES {
            return Advice::Spend;
        }
        self.advise(id, failed, now, (times, tries))
    }

    /// The destination is overloaded and asks for a pause. One event by itself does not close the route, because
    /// perhaps only one of several queues is full. No event spends an attempt.
    pub(crate) fn busy(&mut self, id: &EventId, failed: Failed, pause: Duration, now: Instant) -> Advice {
        // Counts as a try, but not against the event: it must not be an outlier in an outage that follows.
        let (times, tries) = self.count(id);
        if let Some(outlier) = self.outliers.get_mut(id) {
            outlier.times = 1;
        }
        let advice = self.advise(id, failed, now, (times, tries));
        if let Some(open) = &mut self.open {
            open.next_probe = open.next_probe.max(now + pause);
        }
        advice
    }

    fn advise(&mut self, id: &EventId, failed: Failed, now: Instant, (times, tries): (u32, u32)) -> Advice {
        if !self.streak.contains(id) {
            self.streak.push(id.clone());
            self.streak.truncate(OPEN_AFTER_EVENTS);
        }
        let is_outlier = times > 1;
        let opens = (failed.connection && !is_outlier) || self.streak.len() >= OPEN_AFTER_EVENTS;
        // The event that opened the breaker waits like a probe, so that the next probe is another event.
        let is_evidence = if self.is_open() { failed.probe } else { opens };
        if is_evidence {
            self.open(now);
        }
        match self.open {
            Some(_) if is_evidence && tries == 1 => Advice::ParkProbed,
            Some(_) if is_evidence => Advice::PostponeProbed,
            Some(_) if !is_outlier => Advice::Park,
            _ => Advice::Postpone(tries),
        }
    }

    /// Opens. If it is open, doubles the delay of the next probe.
    pub(crate) fn open(&mut self, now: Instant) {
        let wait = self.open.as_ref().map_or(FIRST_PROBE_DELAY, |open| (open.wait * 2).min(MAX_PROBE_DELAY));
        self.open = Some(Open { next_probe: now + wait, wait });
    }

    /// Counts an unreachable or busy result. Returns `times` and `tries` of the event (see [`Outlier`]).
    fn count(&mut self, id: &EventId) -> (u32, u32) {
        if self.outliers.len() >= MAX_OUTLIERS && !self.outliers.contains_key(id) {
            self.outliers.clear();
        }
        let delivered = self.delivered;
        let fresh = Outlier { times: 1, tries: 0, delivered };
        let outlier = self.outliers.entry(id.clone()).or_insert(fresh);
        outlier.tries = outlier.tries.saturating_add(1);
        if outlier.delivered < delivered {
            outlier.times = outlier.times.saturating_add(1);
            outlier.delivered = delivered;
        }
        (outlier.times, outlier.tries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Failed = Failed { connection: true, probe: false };
    const SILENT: Failed = Failed { connection: false, probe: false };

    fn id(n: u32) -> EventId {
        EventId::from(format!("e{n}"))
    }

    #[test]
    fn single_event_without_a_reply_waits_longer_each_time() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for n in 1..5 {
            assert_eq!(breaker.unreachable(&id(1), SILENT, now), Advice::Postpone(n));
        }
    }

    #[test]
    fn opens_immediately_on_a_failed_connection_and_after_three_events_without_a_reply() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert_eq!(breaker.unreachable(&id(1), REFUSED, now), Advice::ParkProbed);
        assert!(breaker.is_open());
        assert_eq!(breaker.unreachable(&id(2), REFUSED, now), Advice::Park);

        let mut breaker = Breaker::default();
        for _ in 0..5 {
            breaker.unreachable(&id(1), SILENT, now);
        }
        assert!(!breaker.is_open(), "one event alone must not open it");
        breaker.unreachable(&id(2), SILENT, now);
        breaker.delivered(&id(9));
        breaker.unreachable(&id(3), SILENT, now);
        assert!(!breaker.is_open(), "a success in between resets the count");
        breaker.unreachable(&id(4), SILENT, now);
        breaker.unreachable(&id(5), SILENT, now);
        assert!(breaker.is_open());
    }

    #[test]
    fn probes_after_one_second_doubling_to_ten() {
        let start = Instant::now();
        let mut now = start;
        let mut breaker = Breaker::default();
        breaker.unreachable(&id(0), REFUSED, now);
        let mut waits = Vec::new();
        for n in 1..8 {
            let probe = breaker.next_probe().expect("open");
            waits.push((probe - now).as_secs());
            now = probe;
            assert!(breaker.try_probe(now, Duration::from_secs(10)));
            assert!(!breaker.try_probe(now, Duration::from_secs(10)), "one probe at a time");
            breaker.unreachable(&id(100), REFUSED, now);
            breaker.unreachable(&id(n), Failed { connection: true, probe: true }, now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10, 10]);
        assert!(breaker.answered());
        assert!(!breaker.is_open());
    }

    // Invariant 7
    #[test]
    fn outlier_cannot_open_the_breaker_and_spends_attempts_after_ten_times() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        let poison = id(666);
        assert_eq!(breaker.unreachable(&poison, REFUSED, now), Advice::ParkProbed);
        for n in 2..=MAX_UNREACHABLE_TIMES {
            breaker.delivered(&id(n));
            assert_eq!(breaker.unreachable(&poison, REFUSED, now), Advice::Postpone(n));
            assert!(!breaker.is_open(), "an outlier must not open it");
        }
        breaker.delivered(&id(99));
        assert_eq!(breaker.unreachable(&poison, REFUSED, now), Advice::Spend);
    }

    #[test]
    fn event_that_was_turned_away_again_and_again_spends_nothing_in_an_outage() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for n in 1..=2 * MAX_UNREACHABLE_TIMES {
            breaker.delivered(&id(n));
            assert_ne!(breaker.busy(&id(777), SILENT, Duration::ZERO, now), Advice::Spend);
        }
        assert_ne!(breaker.unreachable(&id(777), REFUSED, now), Advice::Spend);
    }

    #[test]
    fn outage_without_deliveries_makes_no_outliers() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        breaker.unreachable(&id(0), REFUSED, now);
        for _ in 0..100 {
            assert_eq!(breaker.unreachable(&id(1), REFUSED, now), Advice::Park);
        }
    }

    #[test]
    fn outliers_are_bounded() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for n in 0..(MAX_OUTLIERS as u32 + 5) {
            breaker.unreachable(&id(n), SILENT, now);
        }
        assert!(breaker.outliers.len() <= MAX_OUTLIERS);
    }
}
