//! Findings about parked routes and indexes, shared by the diagnoses of all databases.

use posthaste::admin::{Finding, ParkedRoute};

/// The largest number of routes that are examined. Each costs two statements.
const MAX_PARKED_ROUTES: usize = 50;

/// Routes with parked events, read one after the other in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct ParkedRoutes {
    found: Vec<ParkedRoute>,
    is_complete: bool,
}

impl ParkedRoutes {
    /// The name after which to look for the next route. `None` if all routes were read, or as many as are examined.
    pub(crate) fn last(&self) -> Option<String> {
        let last = self.found.last().map(|parked| parked.route.clone()).unwrap_or_default();
        (!self.is_complete && self.found.len() < MAX_PARKED_ROUTES).then_some(last)
    }

    pub(crate) fn add(&mut self, parked: ParkedRoute) {
        // A name that is not valid text cannot be bound, so the query would return the same route again and again.
        self.is_complete = parked.waiting == 0 || self.last().as_ref() == Some(&parked.route);
        if !self.is_complete {
            self.found.push(parked);
        }
    }

    pub(crate) fn into_found(self) -> Vec<ParkedRoute> {
        self.found
    }
}

/// An index of the outbox is missing; `statement` creates it again.
pub(crate) fn missing_index(index: &str, statement: &str) -> Finding {
    Finding::problem(
        "missing-index",
        format!(
            "the index {index} is missing: statements that need it read the whole table, so the rows were \
             not examined"
        ),
        format!("create it again: {statement}"),
    )
}

/// An index of the outbox exists and cannot be used. `why` is the reason.
pub(crate) fn unused_index(index: &str, why: &str, fix: &str) -> Finding {
    Finding::problem(
        "unused-index",
        format!(
            "the index {index} exists, but {why}: statements that need it read the whole table, so the rows \
             were not examined"
        ),
        fix,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(route: &str, waiting: u64) -> ParkedRoute {
        ParkedRoute::new(route, waiting)
    }

    #[test]
    fn reading_routes_ends_whatever_the_database_returns() {
        let mut routes = ParkedRoutes::default();
        routes.add(parked("mail", 3));
        assert_eq!(routes.last().as_deref(), Some("mail"));
        routes.add(parked("mail", 3));
        assert_eq!(routes.last(), None);
        let mut routes = ParkedRoutes::default();
        routes.add(parked("", 0));
        assert_eq!((routes.last(), routes.into_found().len()), (None, 0));
        let mut routes = ParkedRoutes::default();
        (0..MAX_PARKED_ROUTES).for_each(|n| routes.add(parked(&n.to_string(), 1)));
        assert_eq!(routes.last(), None);
    }
}
