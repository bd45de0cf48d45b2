//! TLS: the certificate must come from an authority that we trust, and be good for the host.

use posthaste_publishers::publisher;
use posthaste_testkit::process::free_port;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::node::Node;
use super::queue::Queue;
use super::{event, outcome_of, unconnected};

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("a certificate")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn certificate_must_be_trusted_and_good_for_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (ours, other) = (authority("ours"), authority("another"));
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(["localhost".to_owned()]).expect("parameters");
    let certificate = certificate.signed_by(&key, &ours).expect("a certificate");
    let (ours, other) = (write("ours.pem", ours.pem()), write("other.pem", other.pem()));
    let port = free_port();
    let mut node = Node::with_settings(&format!(
        "listeners.ssl.default = 127.0.0.1:{port}\n\
         ssl_options.cacertfile = {ours}\n\
         ssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\n\
         ssl_options.verify = verify_none\n",
        write("certificate.pem", certificate.pem()),
        write("key.pem", key.serialize_pem()),
    ));
    node.start().await;
    let queue = Queue::declared(&node.url()).await;

    let outcome = async |host: &str, ca: &str| {
        let url = format!("amqps://guest:guest@{host}:{port}/%2f?exchange={}{ca}", queue.name);
        outcome_of(&*publisher(&url).expect("a good URL"), event("Made")).await
    };
    let good = outcome("localhost", &format!("&ca={ours}")).await;
    assert!(good.is_done(), "{good:?}");
    for (host, ca, why) in [
        ("localhost", format!("&ca={other}"), "UnknownIssuer"),
        ("localhost", String::new(), "UnknownIssuer"),
        ("127.0.0.1", format!("&ca={ours}"), "not valid for name"),
    ] {
        let text = unconnected(&outcome(host, &ca).await);
        assert!(text.contains("TLS failed") && text.contains(why), "{text}");
    }
    assert_eq!(queue.received(1).await.len(), 1);
    // A port that speaks no TLS.
    let url = node.url().replace("amqp://", "amqps://") + &format!("?exchange={}&ca={ours}", queue.name);
    let text = unconnected(&outcome_of(&*publisher(&url).expect("a good URL"), event("Made")).await);
    assert!(text.contains("TLS failed"), "{text}");
}
