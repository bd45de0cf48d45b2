//! What stands in the log: neither passwords nor payloads, at any level. The client library logs as well, and at
//! TRACE it tells the headers; docs/nats.md says so.

use posthaste::{Event, Outcome};
use posthaste_publishers::Publisher as _;

use super::server::{NatsServer, Stream};
use super::{deliver_one, publisher_of};
use crate::secrets::{SENTINEL, is_child, log_everything, nothing_secret_is_logged_by};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn neither_password_nor_payload_is_logged() {
    nothing_secret_is_logged_by("nats::log::child", "async_nats").await;
}

/// Not a test: a process that logs everything to its standard output.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process of other tests: cargo xtask test"]
async fn child() {
    if !is_child() {
        return;
    }
    let mut server =
        NatsServer::new(&format!("authorization {{ users = [ {{ user: me, password: \"{SENTINEL}\" }} ] }}"));
    server.start().await;
    let host = format!("127.0.0.1:{}", server.port());
    Stream::new(format!("nats://me:{SENTINEL}@{host}"), "door").create().await;
    log_everything();
    let secret = || Event::builder("Made").json(&SENTINEL).build().expect("a good event");
    let taken = publisher_of(&format!("nats://me:{SENTINEL}@{host}/door.orders"));
    assert!(deliver_one(&taken, secret()).await.is_done());
    let nowhere = publisher_of(&format!("nats://me:{SENTINEL}@{host}/nobody"));
    assert!(matches!(deliver_one(&nowhere, secret()).await, Outcome::Retry(_)));
    for login in
        [format!("me:not-{SENTINEL}@{host}/door.orders"), format!("{host}/door.orders?token={SENTINEL}")]
    {
        let refused = publisher_of(&format!("nats://{login}"));
        assert!(matches!(deliver_one(&refused, secret()).await, Outcome::Unreachable(_)));
        assert!(refused.check().await.is_err());
    }
}
