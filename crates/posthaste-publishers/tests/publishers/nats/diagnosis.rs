//! Findings about NATS streams.

use async_nats::jetstream::stream::StorageType;
use futures_util::future::join_all;
use posthaste::admin::Severity;
use posthaste_testkit::process::free_port;
use posthaste_testkit::server::wait_for_server;

use super::server::{NatsServer, Stream};
use crate::delivery::{assert_delivered, codes, publisher};

/// Users of the account `APP` may request how the servers store messages.
const OPEN_ACCOUNT_CONFIG: &str = r#"
accounts {
  SYS { users: [{ user: sys, password: sys }]
        exports: [{ service: "$SYS.REQ.SERVER.PING.JSZ", response_type: stream }] }
  APP { jetstream: enabled
        users: [{ user: me, password: me }]
        imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } }] }
}
system_account: SYS
"#;

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn stream_with_one_replica_and_periodic_sync_is_reported() {
    let server = NatsServer::started(OPEN_ACCOUNT_CONFIG).await;
    let url = server.url_of("me:me");
    Stream::new(&url, "shop").create().await;
    let expected = [("nats-sync-interval", Severity::Warning)];
    assert_eq!(codes(&format!("{url}/shop.orders")).await, expected);
    assert_eq!(codes(&format!("{url}/shop.{{aggregate_type}}")).await, expected, "for any aggregate type");
    assert_eq!(codes(&format!("{url}/elsewhere?stream=shop")).await, expected, "the stream is configured");
    assert_eq!(codes(&format!("{url}/shop.orders?core=true")).await, [], "nothing is acknowledged");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn memory_stream_is_reported() {
    let server = NatsServer::started("").await;
    let stream = Stream::new(server.url(), "hasty");
    stream.create_with(|config| config.storage = StorageType::Memory).await;
    let expected = [("nats-memory-stream", Severity::Warning)];
    assert_eq!(codes(&format!("{}/hasty.orders", server.url())).await, expected);
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn subject_without_a_stream_is_reported() {
    let server = NatsServer::started("").await;
    Stream::new(server.url(), "shop").create().await;
    let expected = [("nats-no-stream", Severity::Problem)];
    assert_eq!(codes(&format!("{}/shipping.orders", server.url())).await, expected);
    assert_eq!(codes(&format!("{}/shipping.{{aggregate_type}}", server.url())).await, expected);
}

/// The user may read only the server's version. The requests that are denied must not delay the diagnosis.
#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn diagnosis_works_for_a_user_who_may_only_publish() {
    let server = NatsServer::started(
        r#"authorization { users: [
             { user: all, password: all }
             { user: me, password: me, permissions: { publish: "shop.>", subscribe: "_INBOX.>" } } ] }"#,
    )
    .await;
    Stream::new(server.url_of("all:all"), "shop").create().await;
    let url = format!("{}/shop.orders", server.url_of("me:me"));
    let found = codes(&url).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "nats-sync-interval");
    let publisher = publisher(&url);
    publisher.diagnose().await;
    // The connection is still good.
    assert_delivered(&publisher).await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn stream_with_three_replicas_has_only_a_note() {
    let ports = [free_port(), free_port(), free_port()];
    let routes = ports.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
    let mut servers = ports.map(|port| {
        let cluster = format!("cluster {{ name: c, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}");
        NatsServer::new(&format!("server_name: n{port}\n{cluster}"))
    });
    // A server accepts no clients before it has found the others.
    join_all(servers.iter_mut().map(|server| server.server.listen())).await;
    let stream = Stream::new(servers[0].url(), "shop");
    wait_for_server("the cluster has a leader, and the stream three replicas", async || {
        stream.try_create_with(|config| config.num_replicas = 3).await.is_ok()
    })
    .await;
    let found = codes(&format!("{}/shop.orders", servers[0].url())).await;
    assert_eq!(found, [("nats-sync-interval", Severity::Note)]);
}
