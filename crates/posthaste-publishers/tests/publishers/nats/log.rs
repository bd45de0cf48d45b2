//! Logs contain neither passwords nor payloads, at any level. The client library logs headers at TRACE;
//! docs/nats.md documents it.

use super::server::{NatsServer, Stream};
use crate::delivery::{changed, deliver_one, order, publisher, text_of};
use crate::secrets::{SENTINEL, assert_no_secret_logged, log_everything};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn neither_password_nor_payload_is_logged() {
    let test = "nats::log::neither_password_nor_payload_is_logged";
    assert_no_secret_logged(test, "async_nats", deliver()).await;
}

async fn deliver() {
    let settings = format!("authorization {{ users = [ {{ user: me, password: \"{SENTINEL}\" }} ] }}");
    let server = NatsServer::started(&settings).await;
    let url = server.url_of(&format!("me:{SENTINEL}"));
    Stream::new(&url, "door").create().await;
    log_everything();
    let secret = || changed(&order(), |parts| parts.payload = format!("{SENTINEL:?}").into());
    assert!(deliver_one(&publisher(&format!("{url}/door.orders")), secret()).await.is_done());
    text_of("retry", &deliver_one(&publisher(&format!("{url}/unknown")), secret()).await);
    let wrong = server.url_of(&format!("me:not-{SENTINEL}"));
    for url in [format!("{wrong}/door.orders"), format!("{}/door.orders?token={SENTINEL}", server.url())] {
        let refused = publisher(&url);
        text_of("no connection", &deliver_one(&refused, secret()).await);
        assert!(refused.check().await.is_err());
    }
}
