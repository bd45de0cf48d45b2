//! Order plan: decides what happens to each order, as a pure function of the seed and the order's number. The same seed
//! gives the same run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const ITEM_NAMES: [&str; 6] = ["lamp", "chair", "kettle", "teapot", "mirror", "clock"];

/// The plan of a whole run, which repeats every `cycle` orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderPlan {
    seed: u64,
    cycle: u64,
}

/// One order, and what happens to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) kind: OrderKind,
    pub(super) write_path: WritePath,
    pub(super) body: OrderBody,
}

/// Kind of the order, which determines the event type and the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderKind {
    Placed,
    Paid,
    Cancelled,
}

impl OrderKind {
    pub(super) const ALL: [OrderKind; 3] = [OrderKind::Placed, OrderKind::Paid, OrderKind::Cancelled];

    pub(super) fn event_type(self) -> &'static str {
        match self {
            OrderKind::Placed => "OrderPlaced",
            OrderKind::Paid => "OrderPaid",
            OrderKind::Cancelled => "OrderCancelled",
        }
    }

    /// The name of the destination and of its route.
    pub(super) fn destination(self) -> &'static str {
        match self {
            OrderKind::Placed => "warehouse",
            OrderKind::Paid => "billing",
            OrderKind::Cancelled => "mail",
        }
    }
}

/// How the order is written to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePath {
    /// One transaction with the order and its event.
    Committed,
    /// The same transaction, rolled back at the end.
    RolledBack,
    /// Committed, with an event that becomes due later.
    Delayed(Duration),
    /// Written with plain SQL, as by a service without the Posthaste library.
    Foreign,
}

/// The payload of the event of an order. It contains how its destination will react, so that a restarted demo continues
/// the same plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OrderBody {
    pub(super) order: u64,
    /// Without an item every delivery fails: the event becomes DEAD.
    pub(super) item: Option<String>,
    pub(super) cents: u64,
    /// Number of attempts that fail before one succeeds.
    pub(super) fails: u32,
}

impl OrderPlan {
    /// Length of a cycle when the demo runs until it is stopped.
    const ENDLESS_CYCLE_ORDERS: u64 = 2_000;

    /// Runs with at most this many orders have no outage.
    const MAX_ORDERS_WITHOUT_OUTAGE: u64 = 20;

    pub(super) fn new(seed: u64, orders: Option<u64>) -> Self {
        Self { seed, cycle: orders.unwrap_or(Self::ENDLESS_CYCLE_ORDERS).max(1) }
    }

    pub(super) fn order(&self, number: u64) -> Order {
        let mut random = self.random(number);
        let poison = self.is_poison(number);
        let write_path = match random.u64(0..100) {
            _ if poison => WritePath::Committed,
            0..5 => WritePath::RolledBack,
            5..10 => WritePath::Delayed(Duration::from_millis(random.u64(200..800))),
            10..20 => WritePath::Foreign,
            _ => WritePath::Committed,
        };
        let kind = match random.u64(0..10) {
            _ if poison => OrderKind::Paid,
            0..5 => OrderKind::Placed,
            5..8 => OrderKind::Paid,
            _ => OrderKind::Cancelled,
        };
        let fails = if random.u64(0..100) < 8 { random.u32(1..3) } else { 0 };
        let item = ITEM_NAMES[random.usize(0..ITEM_NAMES.len())].to_owned();
        let body = OrderBody {
            order: number,
            item: (!poison).then_some(item),
            cents: random.u64(100..100_000),
            fails: if poison { 0 } else { fails },
        };
        Order { number, kind, write_path, body }
    }

    /// Whether the warehouse is unreachable while this order is written. Short runs have no outage: an event that waits
    /// alone waits long, because no other event probes the destination.
    pub(super) fn warehouse_is_down(&self, number: u64) -> bool {
        let position = self.position(number);
        self.cycle > Self::MAX_ORDERS_WITHOUT_OUTAGE
            && position >= self.cycle * 3 / 10
            && position < self.cycle / 2
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
        // Similar seeds give similar streams at first, so they are mixed.
        let mut mixer = fastrand::Rng::with_seed(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        fastrand::Rng::with_seed(mixer.u64(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_orders() {
        let story = |seed| {
            let plan = OrderPlan::new(seed, Some(300));
            (0..300).map(|number| plan.order(number)).collect::<Vec<_>>()
        };
        assert_eq!(story(7), story(7));
        assert_ne!(story(7), story(8));
    }

    #[test]
    fn every_run_has_exactly_one_poison_order_and_it_commits() {
        for orders in [1, 2, 10, 200, 1_000] {
            let plan = OrderPlan::new(orders, Some(orders));
            let poison: Vec<Order> = (0..orders)
                .map(|number| plan.order(number))
                .filter(|order| order.body.item.is_none())
                .collect();
            assert_eq!(poison.len(), 1, "{orders} orders");
            assert_eq!(poison[0].write_path, WritePath::Committed);
        }
    }

    #[test]
    fn long_run_has_every_write_path_and_an_outage_that_ends() {
        let plan = OrderPlan::new(7, Some(200));
        let ways: Vec<WritePath> = (0..200).map(|number| plan.order(number).write_path).collect();
        assert!(ways.contains(&WritePath::RolledBack) && ways.contains(&WritePath::Foreign));
        assert!(ways.iter().any(|write_path| matches!(write_path, WritePath::Delayed(_))));
        let down: Vec<u64> = (0..200).filter(|number| plan.warehouse_is_down(*number)).collect();
        assert_eq!((down.first(), down.last()), (Some(&60), Some(&99)));
        assert!((0..20).all(|number| !OrderPlan::new(7, Some(20)).warehouse_is_down(number)));
    }
}
