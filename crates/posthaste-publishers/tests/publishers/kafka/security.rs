//! TLS, SASL and access control lists: outcomes and texts without secrets.

use std::fs;
use std::path::Path;

use posthaste_testkit::certificates::certificates_for;
use posthaste_testkit::process::free_port;

use super::broker::{OwnKafka, read};
use super::log_of_posthaste;
use crate::broker_faults::assert_unreachable;
use crate::delivery::{assert_delivered, deliver_one, order, publisher, text_of};
use crate::secrets::SENTINEL;

/// Writes the files of an authority and of a broker: `ca.pem`, and `broker.pem` with key and certificate.
fn certificates(dir: &Path) {
    fs::write(dir.join("ca.pem"), certificates_for(dir, &["127.0.0.1"])).expect("a file");
    let read = |name: &str| fs::read_to_string(dir.join(name)).expect("a file");
    fs::write(dir.join("broker.pem"), read("key.pem") + &read("cert.pem")).expect("a file");
}

/// `writer` may do everything, `reader` nothing. The anonymous user of the plain listener is the test itself.
fn settings() -> String {
    format!(
        "ssl.keystore.type=PEM
ssl.keystore.location=DIR/broker.pem
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
         required username=\"x\" password=\"x\" user_writer=\"{SENTINEL}\" user_reader=\"{SENTINEL}\";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:writer
"
    )
}

// S3, S9
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn delivery_needs_a_trusted_certificate_a_password_and_permission() {
    let log = log_of_posthaste();
    let (ssl, sasl) = (free_port(), free_port());
    let listeners = format!(",SSL://127.0.0.1:{ssl},SASL_SSL://127.0.0.1:{sasl}");
    let Some(mut kafka) = OwnKafka::with(&listeners, &settings()).await else { return };
    certificates(kafka.dir());
    let other = tempfile::tempdir().expect("a folder");
    certificates(other.path());
    kafka.start().await;
    let (dir, other) = (kafka.dir().display().to_string(), other.path().display().to_string());

    let good = format!("kafka://writer:{SENTINEL}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem");
    assert_eq!(publisher(&good).check().await, Ok(()));
    assert_delivered(&publisher(&good)).await;
    assert_eq!(read(&kafka.hosts(), "events").await.len(), 1);

    for (url, reason) in [
        (format!("kafka://127.0.0.1:{ssl}/events?ca={other}/ca.pem"), "certificate verify failed"),
        (format!("kafka://localhost:{ssl}/events?ca={dir}/ca.pem"), "certificate verify failed"),
        (format!("kafka://writer:wrong-{SENTINEL}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem"), "uthentication"),
        (format!("kafka://unknown:{SENTINEL}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem"), "uthentication"),
        (format!("kafka://127.0.0.1:{sasl}/events"), ""),
    ] {
        let checked = assert_unreachable(&url).await;
        println!("{checked}");
        assert!(checked.contains(reason), "{reason}: {checked}");
        let text = text_of("no connection", &deliver_one(&publisher(&url), order()).await);
        println!("{text}");
        assert!(text.contains(reason), "{reason}: {text}");
    }

    let forbidden = format!("kafka://reader:{SENTINEL}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem");
    println!("{}", text_of("retry", &deliver_one(&publisher(&forbidden), order()).await));
    assert_eq!(read(&kafka.hosts(), "events").await.len(), 1, "no other event was written");
    let text = log.text();
    assert_eq!(text.lines().find(|line| line.contains(SENTINEL)), None);
    assert!(text.contains("librdkafka"), "the library's lines are in the log");
}
