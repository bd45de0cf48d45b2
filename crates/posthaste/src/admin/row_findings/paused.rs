//! Findings about routes that are paused and may have been forgotten.

use std::collections::BTreeSet;

use super::{RowObservations, format_count, format_duration};
use crate::admin::finding_text::{format_time, quoted};
use crate::admin::{AuditEntry, Finding, Tolerance};
use crate::time::Timestamp;

/// A route that an operator has paused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PausedRoute {
    /// Its name.
    pub route: String,
    /// Since when, by the store's clock; `None` if unknown.
    pub since: Option<Timestamp>,
    /// By whom; `None` if unknown.
    pub by: Option<String>,
}

impl PausedRoute {
    /// A paused route.
    pub fn new(route: String, since: Option<Timestamp>, by: Option<String>) -> Self {
        Self { route, since, by }
    }

    /// For stores that keep only the names: takes when and by whom these routes were paused from the audit, newest
    /// entries first.
    pub fn from_audit(routes: &BTreeSet<String>, audit: &[AuditEntry]) -> Vec<Self> {
        let pause = |route: &String| audit.iter().find(|e| e.action == "pause" && e.target == *route);
        let paused = |route: &String| {
            let entry = pause(route);
            let (since, by) = (entry.map(|entry| entry.at), entry.map(|entry| entry.actor.clone()));
            Self { route: route.clone(), since, by }
        };
        routes.iter().map(paused).collect()
    }
}

pub(super) fn findings(observed: &RowObservations, tolerance: &Tolerance) -> impl Iterator<Item = Finding> {
    let is_borne = |paused: &&PausedRoute| {
        paused.since.is_some_and(|since| observed.now.since(since) < tolerance.paused)
    };
    observed.paused.iter().filter(move |paused| !is_borne(paused)).map(|paused| finding(paused, observed))
}

fn finding(paused: &PausedRoute, observed: &RowObservations) -> Finding {
    let route = quoted(&paused.route);
    let by = paused.by.as_deref().map(|actor| format!(" by {}", quoted(actor))).unwrap_or_default();
    let since = match paused.since {
        Some(since) => {
            format!(
                "has been paused{by} for {}, since {}",
                format_duration(observed.now.since(since)),
                format_time(since)
            )
        }
        None => format!("is paused{by}, and the audit does not say since when"),
    };
    let waiting: u64 = observed
        .parked
        .iter()
        .filter(|parked| parked.is_for(&paused.route))
        .map(|parked| parked.waiting)
        .sum();
    Finding::warning(
        "paused-route",
        format!("the route {route} {since}; events that wait for it: {}", format_count(waiting)),
        format!("if that was forgotten, resume it: posthaste resume {route}"),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admin::{ParkedRoute, Stats};

    const HOUR: Duration = Duration::from_secs(3600);

    fn paused(route: &str, since: Option<Timestamp>) -> PausedRoute {
        PausedRoute::new(route.to_owned(), since, Some("ann".to_owned()))
    }

    #[test]
    fn short_pause_is_not_a_finding() {
        let start = Timestamp::from_micros(0);
        let paused = vec![paused("mail", Some(start)), paused("sms", Some(start + HOUR))];
        let parked = vec![ParkedRoute { route: "mail".to_owned(), waiting: 7, ..ParkedRoute::default() }];
        let observed = RowObservations { now: start + HOUR, paused, parked, ..RowObservations::default() };
        let findings = observed.findings(&Stats::default(), &Tolerance::default());
        assert_eq!(findings.len(), 1, "{findings:?}");
        let what = "the route \"mail\" has been paused by \"ann\" for 1h, since 1970-01-01T00:00:00Z; events \
                    that wait for it: 7";
        assert_eq!((findings[0].code, &*findings[0].what), ("paused-route", what));
        assert!(findings[0].advice.contains("posthaste resume \"mail\""));
    }

    #[test]
    fn last_pause_of_the_audit_counts() {
        let entry = |seq, actor: &str, action: &str, target: &str| {
            AuditEntry::new(
                seq,
                Timestamp::from_micros(seq),
                actor.to_owned(),
                action.to_owned(),
                target.to_owned(),
                1,
            )
        };
        let audit = [
            entry(4, "cy", "pause", "mail"),
            entry(3, "bob", "resume", "mail"),
            entry(2, "bob", "replay", "sms"),
            entry(1, "ann", "pause", "mail"),
        ];
        let routes = ["mail".to_owned(), "sms".to_owned()].into();
        let found = PausedRoute::from_audit(&routes, &audit);
        assert_eq!((found[0].since, found[0].by.as_deref()), (Some(Timestamp::from_micros(4)), Some("cy")));
        assert_eq!((found[1].since, &found[1].by), (None, &None));
        let observed = RowObservations { paused: found, ..RowObservations::default() };
        let findings = observed.findings(&Stats::default(), &Tolerance::default());
        assert_eq!(findings.len(), 1, "the other one was paused a moment ago: {findings:?}");
        assert!(findings[0].what.contains("\"sms\" is paused, and the audit does not say since when"));
    }
}
