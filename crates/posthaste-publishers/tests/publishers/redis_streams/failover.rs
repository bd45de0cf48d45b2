//! Failover: the primary becomes a replica and keeps its connections, while its address leads to the new primary.

use std::time::Instant;

use posthaste_testkit::proxy::MovingAddress;
use posthaste_testkit::server::{RedisServer, wait_for_server};

use super::server::{command, received, url_at};
use crate::delivery::{assert_delivered, deliver_one, order, publisher, text_of};

async fn started() -> RedisServer {
    RedisServer::durable(&[]).started().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn publisher_moves_from_a_demoted_primary_to_the_new_one() {
    let (old, new) = (started().await, started().await);
    let address = MovingAddress::to(old.port()).await;
    let publisher = publisher(&url_at(address.port()));
    assert_delivered(&publisher).await;
    command(&old, &["REPLICAOF", "127.0.0.1", &new.port().to_string()]).await;
    address.redirect_to(new.port());
    let event = order();
    wait_for_server("the new primary accepts the event", || {
        let attempt = deliver_one(&publisher, event.clone());
        async { attempt.await.is_done() }
    })
    .await;
    assert!(received(new.port(), 1).await.iter().any(|message| message.id == *event.id()));
}

/// A server may refuse writes for hours, and not every delivery may open a new connection.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn publisher_reconnects_to_a_replica_at_most_once_per_second() {
    let server = started().await;
    let address = MovingAddress::to(server.port()).await;
    let publisher = publisher(&url_at(address.port()));
    assert_delivered(&publisher).await;
    command(&server, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let (before, since) = (address.accepted(), Instant::now());
    for _ in 0..200 {
        let why = text_of("no answer", &deliver_one(&publisher, order()).await);
        assert!(why.contains("replica"), "{why}");
    }
    let connections = address.accepted() - before;
    assert!(connections as u64 <= since.elapsed().as_secs() + 1, "{connections} in {:?}", since.elapsed());
}
