//! The harness that runs the conformance suite of destinations on a broker.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::destination::{DestinationCapabilities, DestinationHarness, Received, Server};
use posthaste::{Destination, Event};
use tokio::sync::{Mutex, OnceCell};

use super::Broker;
use crate::delivery::{of_size, publisher};

/// More than the limit of any publisher.
const TOO_MANY_BYTES: usize = 17 << 20;

/// Uses the shared server, until a case stops the server: then a private one.
pub(crate) struct BrokerHarness<B> {
    shared: B,
    own: OnceCell<OwnBroker<B>>,
}

struct OwnBroker<B> {
    url: String,
    broker: Mutex<B>,
}

impl<B: Broker> BrokerHarness<B> {
    pub(crate) async fn new() -> Self {
        Self { shared: B::shared().await, own: OnceCell::new() }
    }
}

#[async_trait]
impl<B: Broker> DestinationHarness for BrokerHarness<B> {
    fn destination(&self) -> Arc<dyn Destination> {
        publisher(&self.own.get().map_or_else(|| self.shared.url(), |own| own.url.clone()))
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        match self.own.get() {
            Some(own) => own.broker.lock().await.received(n).await,
            None => self.shared.received(n).await,
        }
    }

    fn refused(&self) -> Option<Event> {
        Some(B::refused().event)
    }

    fn too_large(&self) -> Option<Event> {
        Some(of_size(TOO_MANY_BYTES).event)
    }

    fn server(&self) -> Option<&dyn Server> {
        if B::has_no_private_server() { None } else { Some(self) }
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {
        self.shared.close().await;
    }
}

#[async_trait]
impl<B: Broker> Server for BrokerHarness<B> {
    async fn start(&self) {
        let own = async || {
            let broker = B::own().await;
            OwnBroker { url: broker.url(), broker: Mutex::new(broker) }
        };
        self.own.get_or_init(own).await.broker.lock().await.start().await;
    }

    async fn stop(&self) {
        self.own.get().expect("it was started").broker.lock().await.server().kill();
    }
}
