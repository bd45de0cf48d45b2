//! The primary becomes a replica and keeps its clients; its address leads to the new primary.

use std::time::Instant;

use posthaste_testkit::proxy::MovingAddress;
use posthaste_testkit::server::{RedisServer, wait_for_server};

use super::server::{command, received, url_at};
use crate::delivery::{deliver_one, is_delivered, order, publisher, text_of};

async fn started() -> RedisServer {
    RedisServer::durable(&[]).started().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn demoted_primary_is_left_for_the_new_one() {
    let (old, new) = (started().await, started().await);
    let address = MovingAddress::to(old.port()).await;
    let publisher = publisher(&url_at(address.port()));
    is_delivered(&publisher).await;
    command(&old, &["REPLICAOF", "127.0.0.1", &new.port().to_string()]).await;
    address.redirect_to(new.port());
    let event = order();
    wait_for_server("the new primary has it", || {
        let attempt = deliver_one(&publisher, event.clone());
        async { attempt.await.is_done() }
    })
    .await;
    assert!(received(new.port(), 1).await.iter().any(|message| message.id == *event.id()));
}

/// A server may refuse to write for hours, and every delivery would connect anew.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_stays_a_replica_is_not_connected_to_with_every_delivery() {
    let server = started().await;
    let address = MovingAddress::to(server.port()).await;
    let publisher = publisher(&url_at(address.port()));
    is_delivered(&publisher).await;
    command(&server, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let (before, since) = (address.accepted(), Instant::now());
    for _ in 0..200 {
        let why = text_of("no answer", &deliver_one(&publisher, order()).await);
        assert!(why.contains("replica"), "{why}");
    }
    let connections = address.accepted() - before;
    assert!(connections as u64 <= since.elapsed().as_secs() + 1, "{connections} in {:?}", since.elapsed());
}
