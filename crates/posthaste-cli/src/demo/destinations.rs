//! The destinations of the demo. Some events fail at first, some always, and the warehouse is unreachable for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste::{Delivery, Outcome, Route, Routes, handler};

use super::crash_journal::Journal;
use super::observed_counts::Tally;
use super::order_plan::{OrderBody, OrderKind};

/// The aggregate type of every order.
pub(super) const ORDER_AGGREGATE: &str = "Order";

/// State that all destinations share.
#[derive(Debug)]
pub(super) struct DemoDestinations {
    pub(super) tally: Arc<Tally>,
    pub(super) journal: Arc<Journal>,
    warehouse_is_down: AtomicBool,
}

impl DemoDestinations {
    pub(super) fn new(tally: Arc<Tally>, journal: Arc<Journal>) -> Arc<Self> {
        Arc::new(Self { tally, journal, warehouse_is_down: AtomicBool::new(false) })
    }

    /// Sets whether the warehouse is unreachable. Returns whether that is a change.
    pub(super) fn set_warehouse_down(&self, down: bool) -> bool {
        self.warehouse_is_down.swap(down, Ordering::Relaxed) != down
    }

    pub(super) fn routes(self: &Arc<Self>) -> Routes {
        OrderKind::ALL.into_iter().fold(Routes::new(), |routes, kind| routes.add(self.route(kind)))
    }

    fn route(self: &Arc<Self>, kind: OrderKind) -> Route {
        let here = Arc::clone(self);
        let deliver = move |delivery: Delivery| {
            let here = Arc::clone(&here);
            async move { here.take(kind, &delivery) }
        };
        Route::event(kind.event_type())
            .aggregate(ORDER_AGGREGATE)
            .name(kind.destination())
            .deliver_to(handler(deliver))
    }

    fn take(&self, kind: OrderKind, delivery: &Delivery) -> Outcome {
        self.tally.called(delivery);
        if kind == OrderKind::Placed && self.warehouse_is_down.load(Ordering::Relaxed) {
            return Outcome::no_connection("connection refused");
        }
        match delivery.payload_as::<OrderBody>() {
            Err(error) => Outcome::retry(error),
            Ok(OrderBody { item: None, .. }) => Outcome::retry("the order names no item"),
            Ok(body) if delivery.attempt <= body.fails => Outcome::retry("503, come back later"),
            Ok(_) => self.keep(delivery),
        }
    }

    /// Accepts the event. It is written to the journal before it is acknowledged.
    fn keep(&self, delivery: &Delivery) -> Outcome {
        if let Err(error) = self.journal.delivered(delivery.id()) {
            return Outcome::retry(error);
        }
        self.tally.delivered(delivery);
        Outcome::done()
    }
}
