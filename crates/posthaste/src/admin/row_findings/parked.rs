//! Findings about parked events: their route is closed, or no engine has one.

use std::collections::BTreeMap;

use super::{RowObservations, format_count, format_duration};
use crate::admin::Finding;
use crate::admin::finding_text::quoted;
use crate::route::ParkReason;
use crate::time::Timestamp;

/// Events that are parked for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedRoute {
    /// The reason, as text.
    pub route: String,
    /// How many there are. A store counts up to one more than
    /// [`Stats::MAX_EXACT_COUNT`](crate::admin::Stats::MAX_EXACT_COUNT).
    pub waiting: u64,
    /// When the oldest of them was inserted.
    pub oldest: Option<Timestamp>,
    /// Why one of them failed last; `None` if none of them was tried.
    pub reason: Option<String>,
}

impl ParkedRoute {
    /// This many events are parked for this reason.
    pub fn new(route: impl Into<String>, waiting: u64) -> Self {
        Self { route: route.into(), waiting, ..Self::default() }
    }

    /// Adds the age and the error of one of the events. Does not count it.
    pub fn see(&mut self, inserted_at: Timestamp, last_error: Option<&str>) {
        let reason = last_error.map(str::to_owned);
        self.join(&Self { oldest: Some(inserted_at), reason, ..Self::default() });
    }

    /// Whether its events wait for this route, as probes or not.
    pub(super) fn is_for(&self, route: &str) -> bool {
        ParkReason::parse(&self.route).route() == Some(route)
    }

    fn join(&mut self, other: &Self) {
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        if self.reason.is_none() {
            self.reason.clone_from(&other.reason);
        }
    }
}

/// One finding for each route that is not paused.
pub(super) fn findings(observed: &RowObservations) -> Vec<Finding> {
    let mut routes: BTreeMap<&str, ParkedRoute> = BTreeMap::new();
    let is_paused = |parked: &&ParkedRoute| observed.paused.iter().any(|paused| parked.is_for(&paused.route));
    for parked in observed.parked.iter().filter(|parked| !is_paused(parked)) {
        let name = ParkReason::parse(&parked.route).route().unwrap_or(&parked.route);
        routes.entry(name).or_default().join(parked);
    }
    routes.into_iter().map(|(route, parked)| finding(route, &parked, observed.now)).collect()
}

fn finding(route: &str, parked: &ParkedRoute, now: Timestamp) -> Finding {
    let waiting = format_count(parked.waiting);
    let age = parked.oldest.map(|oldest| format!(", the oldest for {}", format_duration(now.since(oldest))));
    let reason = parked.reason.as_deref().map(|reason| format!("; why: {}", quoted(reason)));
    let (age, reason) = (age.unwrap_or_default(), reason.unwrap_or_default());
    let reason_parked = ParkReason::parse(route);
    if reason_parked == ParkReason::NoRoute {
        return Finding::warning(
            "no-route",
            format!("events that no route takes: {waiting}{age}{reason}"),
            "add a route for their types: after the grace for events without a route they are DEAD",
        );
    }
    if reason_parked == ParkReason::Suspect {
        return Finding::warning(
            "suspect-events",
            format!("events whose processes died again and again: {waiting}{age}{reason}"),
            "each is delivered with nothing else beside it; see why engines end without a stop: their logs, memory \
             limits and kill signals",
        );
    }
    Finding::note(
        "parked-route",
        format!(
            "events that wait for the route {}, which is not paused: {waiting}{age}{reason}",
            quoted(route)
        ),
        "see whether its destination can be reached, and whether any engine knows the route",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admin::{PausedRoute, Stats, Tolerance};

    fn parked(route: &str, waiting: u64, oldest: i64, reason: Option<&str>) -> ParkedRoute {
        let oldest = Some(Timestamp::from_micros(oldest));
        ParkedRoute { route: route.to_owned(), waiting, oldest, reason: reason.map(str::to_owned) }
    }

    fn found(observed: &RowObservations) -> Vec<(&'static str, String)> {
        let findings = observed.findings(&Stats::default(), &Tolerance::default());
        findings.into_iter().map(|finding| (finding.code, finding.what)).collect()
    }

    #[test]
    fn probes_of_a_route_are_counted_with_it_and_have_the_reason() {
        let now = Timestamp::from_micros(0) + Duration::from_secs(60);
        let rows = vec![
            parked("mail", 3, 1, None),
            parked("mail (probed)", 2, 0, Some("connection refused")),
            parked("no route", 1, 0, None),
            parked("sms", 200_000, 1, None),
        ];
        let findings = found(&RowObservations { now, parked: rows, ..RowObservations::default() });
        let codes: Vec<_> = findings.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, ["parked-route", "no-route", "parked-route"]);
        assert_eq!(
            findings[0].1,
            "events that wait for the route \"mail\", which is not paused: 5, the oldest for 1m; why: \
             \"connection refused\""
        );
        assert!(findings[2].1.contains("more than 100000"), "{findings:?}");
    }

    #[test]
    fn events_of_a_paused_route_are_not_a_second_finding() {
        let since = Some(Timestamp::default());
        let paused = vec![PausedRoute::new("mail".to_owned(), since, None)];
        let rows = vec![parked("mail", 3, 0, None), parked("mail (probed)", 1, 0, None)];
        assert!(found(&RowObservations { paused, parked: rows, ..RowObservations::default() }).is_empty());
    }
}
