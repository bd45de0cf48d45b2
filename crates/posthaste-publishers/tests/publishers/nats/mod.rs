//! NATS: the conformance suite, the common broker faults, and cases that only NATS has.

mod diagnosis;
mod log;
mod login;
mod outcomes;
mod server;

use async_trait::async_trait;
use posthaste::Delivery;
use posthaste::conformance::destination::Received;
use posthaste_testkit::server::OwnServer;
use posthaste_testkit::variable;

use crate::broker_faults::{Broker, broker_tests};
use crate::delivery::event_with;
use server::{NatsServer, Stream};

/// The URL of the shared server.
fn shared() -> String {
    let servers = variable("POSTHASTE_TEST_NATS_URL");
    servers.split(',').next().expect("a server").to_owned()
}

struct Nats {
    /// `None` on the shared server.
    server: Option<NatsServer>,
    stream: Stream,
}

#[async_trait]
impl Broker for Nats {
    async fn shared() -> Self {
        Self { server: None, stream: Stream::shared().await }
    }

    async fn own() -> Self {
        let server = NatsServer::new("");
        let stream = Stream::new(server.url(), "trouble");
        Self { server: Some(server), stream }
    }

    fn url(&self) -> String {
        format!("{}?timeout=8", self.stream.subject("events"))
    }

    fn server(&mut self) -> &mut OwnServer {
        &mut self.server.as_mut().expect("a private server").server
    }

    async fn start(&mut self) {
        self.server().listen().await;
        self.stream.create().await;
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        self.stream.received(n).await
    }

    fn refused() -> Delivery {
        event_with("Nats-Rollup", "all")
    }

    async fn close(&self) {
        self.stream.delete().await;
    }
}

broker_tests!(Nats, "needs NATS: cargo xtask test");
