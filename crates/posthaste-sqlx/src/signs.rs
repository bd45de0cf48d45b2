//! What a store has seen of its rows that looks wrong.

use posthaste::admin::{Finding, Stats, Tolerance};

/// More routes than this are not looked at: each costs a statement.
const MOST_ROUTES: usize = 50;

#[derive(Debug)]
pub(crate) struct Signs {
    /// Pending rows that cannot be read.
    unreadable: u64,
    /// Routes for which events wait, in order, and how many do.
    parked: Vec<(String, u64)>,
    is_complete: bool,
}

impl Signs {
    pub(crate) fn new(unreadable: usize) -> Self {
        Self { unreadable: unreadable as u64, parked: Vec::new(), is_complete: false }
    }

    /// The route behind which to look for the next; none if there is nothing more to see.
    pub(crate) fn last_route(&self) -> Option<&str> {
        let last = self.parked.last().map_or("", |(route, _)| route);
        (!self.is_complete && self.parked.len() < MOST_ROUTES).then_some(last)
    }

    pub(crate) fn add_route(&mut self, route: String, waiting: u64) {
        // A name that is no text cannot be asked for, so that it would come again and again.
        self.is_complete = self.last_route() == Some(&route);
        if !self.is_complete {
            self.parked.push((route, waiting));
        }
    }

    /// What to tell the operator, with what the counts say.
    pub(crate) fn findings(&self, stats: &Stats, tolerance: &Tolerance) -> Vec<Finding> {
        let parked = self.parked.iter().filter(|(route, _)| !stats.paused.contains(route));
        let mut findings = Vec::new();
        findings.extend(stats.oldest_pending.and_then(|age| Finding::late(age, tolerance)));
        findings.extend(Finding::dead(stats.dead));
        findings.extend(Finding::unreadable(self.unreadable));
        findings.extend(parked.map(|(route, waiting)| Finding::parked(route, *waiting)));
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_at_routes_ends_whatever_the_database_answers() {
        let mut signs = Signs::new(0);
        signs.add_route("mail".to_owned(), 3);
        assert_eq!(signs.last_route(), Some("mail"));
        signs.add_route("mail".to_owned(), 3);
        assert_eq!(signs.last_route(), None);
        let mut signs = Signs::new(0);
        (0..MOST_ROUTES).for_each(|n| signs.add_route(n.to_string(), 1));
        assert_eq!(signs.last_route(), None);
    }

    #[test]
    fn paused_routes_are_no_finding() {
        let mut signs = Signs::new(1);
        signs.add_route("mail".to_owned(), 3);
        signs.add_route("sms".to_owned(), 200_000);
        let stats = Stats { paused: ["mail".to_owned()].into(), ..Stats::default() };
        let findings = signs.findings(&stats, &Tolerance::default());
        assert_eq!(findings.len(), 2);
        assert!(findings[1].what.contains("sms") && findings[1].what.contains("more than 100000"));
    }
}
