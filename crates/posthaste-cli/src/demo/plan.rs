//! What happens to each order. A pure function of the seed and the order's number, so that the
//! same seed tells the same story.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const ITEMS: [&str; 6] = ["lamp", "chair", "kettle", "teapot", "mirror", "clock"];

/// The script of a whole run, repeated every `cycle` orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    seed: u64,
    cycle: u64,
}

/// One order, and what will happen to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) way: Way,
    pub(super) body: Body,
}

/// What happened to the order, which decides where its event goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Placed,
    Paid,
    Cancelled,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Placed, Kind::Paid, Kind::Cancelled];

    pub(super) fn event_type(self) -> &'static str {
        match self {
            Kind::Placed => "OrderPlaced",
            Kind::Paid => "OrderPaid",
            Kind::Cancelled => "OrderCancelled",
        }
    }

    /// The destination's name, which is also its route's.
    pub(super) fn destination(self) -> &'static str {
        match self {
            Kind::Placed => "warehouse",
            Kind::Paid => "billing",
            Kind::Cancelled => "mail",
        }
    }
}

/// How the order gets into the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One transaction for the order and its event.
    Committed,
    /// The same, but rolled back at the end.
    RolledBack,
    /// Committed, with an event that is not due yet.
    Delayed(Duration),
    /// Written by a service that knows nothing of Posthaste but the table.
    Foreign,
}

/// The payload of an order's event. What its destination makes of it travels along, so that a
/// restarted demo goes on with the same script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Body {
    pub(super) order: u64,
    /// Without an item no destination can do anything: the event is poison.
    pub(super) item: Option<String>,
    pub(super) cents: u64,
    /// So many attempts fail before one succeeds.
    pub(super) fails: u32,
}

impl Plan {
    /// The length of a cycle when the demo runs until it is stopped.
    const ENDLESS: u64 = 2_000;

    /// So few orders have no outage.
    const HANDFUL: u64 = 20;

    pub(super) fn new(seed: u64, orders: Option<u64>) -> Self {
        Self { seed, cycle: orders.unwrap_or(Self::ENDLESS).max(1) }
    }

    pub(super) fn order(&self, number: u64) -> Order {
        let mut random = self.random(number);
        let poison = self.is_poison(number);
        let way = match random.u64(0..100) {
            _ if poison => Way::Committed,
            0..5 => Way::RolledBack,
            5..10 => Way::Delayed(Duration::from_millis(random.u64(200..800))),
            10..20 => Way::Foreign,
            _ => Way::Committed,
        };
        let kind = match random.u64(0..10) {
            _ if poison => Kind::Paid,
            0..5 => Kind::Placed,
            5..8 => Kind::Paid,
            _ => Kind::Cancelled,
        };
        let fails = if random.u64(0..100) < 8 { random.u32(1..3) } else { 0 };
        let item = ITEMS[random.usize(0..ITEMS.len())].to_owned();
        let body = Body {
            order: number,
            item: (!poison).then_some(item),
            cents: random.u64(100..100_000),
            fails: if poison { 0 } else { fails },
        };
        Order { number, kind, way, body }
    }

    /// Whether the warehouse is down while this order comes in. Never in a handful of orders: what
    /// waits alone waits long, because no other event shows that the destination is back.
    pub(super) fn warehouse_is_down(&self, number: u64) -> bool {
        let position = self.position(number);
        self.cycle > Self::HANDFUL && position >= self.cycle * 3 / 10 && position < self.cycle / 2
    }

    /// One order of each cycle, in its first quarter.
    fn is_poison(&self, number: u64) -> bool {
        let cycle_no = number / self.cycle;
        self.position(number) == self.random(u64::MAX - cycle_no).u64(0..=self.cycle / 4)
    }

    fn position(&self, number: u64) -> u64 {
        number % self.cycle
    }

    fn random(&self, number: u64) -> fastrand::Rng {
        // Seeds that lie close together give streams that look alike at first.
        let mut mixer = fastrand::Rng::with_seed(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        fastrand::Rng::with_seed(mixer.u64(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_tells_the_same_story() {
        let story = |seed| {
            let plan = Plan::new(seed, Some(300));
            (0..300).map(|number| plan.order(number)).collect::<Vec<_>>()
        };
        assert_eq!(story(7), story(7));
        assert_ne!(story(7), story(8));
    }

    #[test]
    fn every_run_has_exactly_one_poison_order_and_it_commits() {
        for orders in [1, 2, 10, 200, 1_000] {
            let plan = Plan::new(orders, Some(orders));
            let poison: Vec<Order> = (0..orders)
                .map(|number| plan.order(number))
                .filter(|order| order.body.item.is_none())
                .collect();
            assert_eq!(poison.len(), 1, "{orders} orders");
            assert_eq!(poison[0].way, Way::Committed);
        }
    }

    #[test]
    fn long_run_has_every_way_and_an_outage_that_ends() {
        let plan = Plan::new(7, Some(200));
        let ways: Vec<Way> = (0..200).map(|number| plan.order(number).way).collect();
        assert!(ways.contains(&Way::RolledBack) && ways.contains(&Way::Foreign));
        assert!(ways.iter().any(|way| matches!(way, Way::Delayed(_))));
        let down: Vec<u64> = (0..200).filter(|number| plan.warehouse_is_down(*number)).collect();
        assert_eq!((down.first(), down.last()), (Some(&60), Some(&99)));
        assert!((0..20).all(|number| !Plan::new(7, Some(20)).warehouse_is_down(number)));
    }
}
