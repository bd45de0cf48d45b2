//! Says in a few words what is happening, once for each kind of thing.

use super::order_plan::{Order, OrderKind, WritePath};

/// What has been told already.
#[derive(Debug, Default)]
pub(super) struct Story {
    rolled_back: bool,
    delayed: bool,
    foreign: bool,
    flaky: bool,
}

impl Story {
    /// What to say about this order, if anything.
    pub(super) fn about(&mut self, order: &Order) -> Option<String> {
        let number = order.number;
        let destination = order.kind.destination();
        if order.body.item.is_none() {
            return Some(format!("order {number} is poison for {destination}: four attempts, then DEAD"));
        }
        match order.write_path {
            WritePath::RolledBack if first(&mut self.rolled_back) => {
                Some(format!("order {number} is rolled back: its event never was"))
            }
            WritePath::Delayed(delay) if first(&mut self.delayed) => {
                Some(format!("order {number}: its event is to be delivered {delay:?} later"))
            }
            WritePath::Foreign if first(&mut self.foreign) => {
                Some(format!("order {number} comes from a stranger's plain INSERT: the poller finds it"))
            }
            WritePath::Committed if order.body.fails > 0 && first(&mut self.flaky) => {
                Some(format!("order {number}: {destination} answers 503 at first, so it is tried again"))
            }
            _ => None,
        }
    }

    pub(super) fn warehouse(down: bool) -> String {
        let warehouse = OrderKind::Placed.destination();
        match down {
            true => format!("destination {warehouse} is down: its events wait, the others go on"),
            false => format!("destination {warehouse} is back: what waited for it follows"),
        }
    }
}

/// Whether this is the first time.
fn first(told: &mut bool) -> bool {
    !std::mem::replace(told, true)
}
