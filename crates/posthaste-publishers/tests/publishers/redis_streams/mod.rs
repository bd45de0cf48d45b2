//! Redis Streams: the suite, the faults of every broker, and what only Redis can get wrong.

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

/// A server of its own in any case: events name their streams, and these tests look at all there are.
struct Redis(RedisServer);

#[async_trait]
impl Broker for Redis {
    async fn shared() -> Self {
        Self(RedisServer::durable(&[]).started().await)
    }

    async fn own() -> Self {
        Self(RedisServer::durable(&[]))
    }

    /// With a timeout that is longer than a broker is slow: Redis does not know repeats.
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

/// The publisher learns that its connection broke when it uses it: the server is there all the same.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn check_makes_a_connection_anew_that_broke_while_nobody_used_it() {
    let mut server = RedisServer::durable(&[]).started().await;
    let publisher = publisher(&url(&server));
    assert_eq!(publisher.check().await, Ok(()));
    server.restart().await;
    assert_eq!(publisher.check().await, Ok(()));
}
