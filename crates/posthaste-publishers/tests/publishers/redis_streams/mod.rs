//! Redis Streams: the conformance suite, the common broker faults, and cases that only Redis has.

mod diagnosis;
mod failover;
mod login;
mod outcomes;
mod server;
mod topics;

use async_trait::async_trait;
use posthaste::Delivery;
use posthaste::conformance::destination::Received;
use posthaste_testkit::server::{OwnServer, RedisServer};

use crate::broker_faults::{Broker, broker_tests};
use crate::delivery::{event_to, publisher};
use server::{received, url};

/// Always a private server, because events name their streams and these tests read all streams of the server.
struct Redis(RedisServer);

#[async_trait]
impl Broker for Redis {
    async fn shared() -> Self {
        Self(RedisServer::durable(&[]).started().await)
    }

    async fn own() -> Self {
        Self(RedisServer::durable(&[]))
    }

    /// The timeout is longer than the slow broker takes, because Redis does not drop duplicates.
    fn url(&self) -> String {
        format!("{}&timeout=9", url(&self.0))
    }

    fn server(&mut self) -> &mut OwnServer {
        self.0.server()
    }

    async fn start(&mut self) {
        self.0.start().await;
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        received(self.0.port(), n).await
    }

    fn refused() -> Delivery {
        event_to("")
    }
}

broker_tests!(Redis, "needs Redis: cargo xtask test");

/// The publisher notices a broken connection only when it uses it, although the server is reachable.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn check_replaces_an_idle_connection_that_broke() {
    let mut server = RedisServer::durable(&[]).started().await;
    let publisher = publisher(&url(&server));
    assert_eq!(publisher.check().await, Ok(()));
    server.restart().await;
    assert_eq!(publisher.check().await, Ok(()));
}
