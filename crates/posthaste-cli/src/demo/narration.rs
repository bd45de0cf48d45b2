//! Narration: one sentence for the first occurrence of each kind of event.

use super::order_plan::{Order, OrderKind, WritePath};

/// What was already explained.
#[derive(Debug, Default)]
pub(super) struct Story {
    rolled_back: bool,
    delayed: bool,
    foreign: bool,
    flaky: bool,
}

impl Story {
    /// A sentence about this order, if there is something new to explain.
    pub(super) fn about(&mut self, order: &Order) -> Option<String> {
        let number = order.number;
        let destination = order.kind.destination();
        if order.body.item.is_none() {
            return Some(format!(
                "order {number} can never be delivered to {destination}: four attempts, then DEAD"
            ));
        }
        match order.write_path {
            WritePath::RolledBack if first(&mut self.rolled_back) => {
                Some(format!("order {number} is rolled back: its event does not exist"))
            }
            WritePath::Delayed(delay) if first(&mut self.delayed) => {
                Some(format!("order {number}: its event becomes due {delay:?} later"))
            }
            WritePath::Foreign if first(&mut self.foreign) => Some(format!(
                "order {number} is written by a plain INSERT of another program: the poller finds it"
            )),
            WritePath::Committed if order.body.fails > 0 && first(&mut self.flaky) => {
                Some(format!("order {number}: {destination} returns 503 at first, so the event is retried"))
            }
            _ => None,
        }
    }

    pub(super) fn warehouse(down: bool) -> String {
        let warehouse = OrderKind::Placed.destination();
        match down {
            true => format!(
                "destination {warehouse} is unreachable: its events are parked, the others are delivered"
            ),
            false => format!("destination {warehouse} is reachable again: its parked events are delivered"),
        }
    }
}

/// Returns `true` on the first call only.
fn first(done: &mut bool) -> bool {
    !std::mem::replace(done, true)
}
