//! Logs contain neither passwords nor payloads, at any level. The client library lapin would log payloads.

use super::queue::Queue;
use super::shared;
use crate::delivery::{changed, deliver_one, event_with, publisher, text_of};
use crate::secrets::{SENTINEL, assert_no_secret_logged, log_everything};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn neither_password_nor_payload_is_logged() {
    assert_no_secret_logged("amqp::log::neither_password_nor_payload_is_logged", "lapin", deliver()).await;
}

async fn deliver() {
    log_everything();
    let secret = |topic: Option<&str>| {
        changed(&event_with("note", SENTINEL), |parts| {
            parts.payload = format!("{SENTINEL:?}").into();
            parts.topic = topic.map(Into::into);
        })
    };
    let queue = Queue::new(&shared());
    queue.declare_with(lapin::types::FieldTable::default(), "other").await;
    text_of("retry", &deliver_one(&publisher(&queue.publisher_url()), secret(Some("secret"))).await);
    let refused = publisher(&queue.publisher_url().replace("guest:guest", &format!("guest:{SENTINEL}")));
    text_of("no connection", &deliver_one(&refused, secret(Some("secret"))).await);
    assert!(refused.check().await.is_err());
    assert!(deliver_one(&publisher(&queue.direct_url()), secret(None)).await.is_done());
    queue.delete().await;
}
