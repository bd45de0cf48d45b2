//! Why rows are parked.

use std::fmt;

const NO_ROUTE: &str = "no route";
const SUSPECTS: &str = "suspects";
const PROBED_SUFFIX: &str = " (probed)";

/// Why a row is parked. Its `Display` is the text in the row's `parked`, which stores keep unchanged.
///
/// ```
/// use posthaste::admin::ParkReason;
///
/// assert_eq!(ParkReason::parse("mail"), ParkReason::Route("mail"));
/// assert_eq!(ParkReason::parse("mail (probed)").route(), Some("mail"));
/// assert_eq!(ParkReason::parse("no route").route(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParkReason<'a> {
    /// This route is closed: an operator has paused it, its destination cannot be reached, or its share of the queue is
    /// full.
    Route(&'a str),
    /// This route is closed, and the event was a probe that failed. Such events are apart from the others. Otherwise
    /// they would be the oldest, and the next probe again.
    Probed(&'a str),
    /// The engine that claimed it has no route for it. Another engine may have one.
    NoRoute,
    /// The event may be what kills its owners. It waits until it can be delivered with nothing else running.
    Suspect,
}

impl<'a> ParkReason<'a> {
    /// Reads the text of a row's `parked`.
    pub fn parse(parked: &'a str) -> Self {
        match parked {
            NO_ROUTE => Self::NoRoute,
            SUSPECTS => Self::Suspect,
            _ => parked.strip_suffix(PROBED_SUFFIX).map_or(Self::Route(parked), Self::Probed),
        }
    }

    /// All reasons for which events of this route are parked.
    pub fn of_route(route: &'a str) -> [Self; 2] {
        [Self::Route(route), Self::Probed(route)]
    }

    /// The closed route; `None` if the row does not wait for a route.
    pub fn route(self) -> Option<&'a str> {
        match self {
            Self::Route(route) | Self::Probed(route) => Some(route),
            Self::NoRoute | Self::Suspect => None,
        }
    }
}

impl fmt::Display for ParkReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route(route) => f.write_str(route),
            Self::Probed(route) => write!(f, "{route}{PROBED_SUFFIX}"),
            Self::NoRoute => f.write_str(NO_ROUTE),
            Self::Suspect => f.write_str(SUSPECTS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_reads_back_from_its_text() {
        let [closed, probed] = ParkReason::of_route("mail");
        for reason in [closed, probed, ParkReason::NoRoute, ParkReason::Suspect] {
            assert_eq!(ParkReason::parse(&reason.to_string()), reason);
        }
    }
}
