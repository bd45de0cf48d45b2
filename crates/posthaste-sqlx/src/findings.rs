//! Findings that the diagnoses of all databases share: parked routes and indexes.

use posthaste::admin::{Finding, ParkedRoute};

/// More routes than this are not looked at: each costs two statements.
const MAX_PARKED_ROUTES: usize = 50;

/// Routes for which events wait, found one behind the other.
#[derive(Debug, Default)]
pub(crate) struct ParkedRoutes {
    found: Vec<ParkedRoute>,
    is_complete: bool,
}

impl ParkedRoutes {
    /// The route behind which to look for the next; none if there is nothing more to see.
    pub(crate) fn last(&self) -> Option<String> {
        let last = self.found.last().map(|parked| parked.route.clone()).unwrap_or_default();
        (!self.is_complete && self.found.len() < MAX_PARKED_ROUTES).then_some(last)
    }

    pub(crate) fn add(&mut self, parked: ParkedRoute) {
        // A name that is no text cannot be asked for, so that it would come again and again.
        self.is_complete = parked.waiting == 0 || self.last().as_ref() == Some(&parked.route);
        if !self.is_complete {
            self.found.push(parked);
        }
    }

    pub(crate) fn into_found(self) -> Vec<ParkedRoute> {
        self.found
    }
}

/// An index of ours that is gone, and the statement that brings it back.
pub(crate) fn missing_index(index: &str, statement: &str) -> Finding {
    Finding::problem(
        "missing-index",
        format!(
            "the index {index} is gone: what it was made for reads the whole table, so the rows were not \
             looked at"
        ),
        format!("create it again: {statement}"),
    )
}

/// An index of ours that is there and of no use. `why` says what is wrong with it.
pub(crate) fn unused_index(index: &str, why: &str, fix: &str) -> Finding {
    Finding::problem(
        "unused-index",
        format!(
            "the index {index} is there, but {why}: what it was made for reads the whole table, so the rows \
             were not looked at"
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
    fn looking_at_routes_ends_whatever_the_database_answers() {
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
