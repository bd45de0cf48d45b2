//! TLS: the certificate must be signed by a trusted authority and valid for the host.

use posthaste_testkit::certificates::certificates_for;
use posthaste_testkit::process::free_port;

use super::node::Node;
use super::queue::Queue;
use crate::broker_faults::assert_no_connection;
use crate::delivery::{assert_delivered, publisher};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn certificate_must_be_trusted_and_valid_for_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().display();
    let write = |name: &str, pem: String| {
        std::fs::write(folder.path().join(name), pem).expect("a file");
        format!("&ca={dir}/{name}")
    };
    let other = write("other.pem", certificates_for(folder.path(), &["localhost"]));
    let ours = write("ours.pem", certificates_for(folder.path(), &["localhost"]));
    let port = free_port();
    let mut node = Node::with_settings(&format!(
        "listeners.ssl.default = 127.0.0.1:{port}\n\
         ssl_options.cacertfile = {dir}/ours.pem\n\
         ssl_options.certfile = {dir}/cert.pem\n\
         ssl_options.keyfile = {dir}/key.pem\n\
         ssl_options.verify = verify_none\n"
    ));
    node.start().await;
    let queue = Queue::declared(&node.url()).await;

    let url =
        |host: &str, ca: &str| format!("amqps://guest:guest@{host}:{port}/%2f?exchange={}{ca}", queue.name);
    assert_delivered(&publisher(&url("localhost", &ours))).await;
    for (host, ca, why) in [
        ("localhost", other.as_str(), "BadSignature"),
        ("localhost", "", "UnknownIssuer"),
        ("127.0.0.1", &ours, "not valid for name"),
    ] {
        let text = assert_no_connection(&url(host, ca)).await;
        assert!(text.contains("TLS failed") && text.contains(why), "{text}");
    }
    assert_eq!(queue.received(1).await.len(), 1);
    // A port without TLS.
    let plain = node.url().replace("amqp://", "amqps://");
    let text = assert_no_connection(&format!("{plain}?exchange={}{ours}", queue.name)).await;
    assert!(text.contains("TLS failed"), "{text}");
}
