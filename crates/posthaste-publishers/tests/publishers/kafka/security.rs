//! TLS, SASL and access lists: the right answer, without a secret in it.

use std::fs;
use std::path::Path;

use posthaste::{Destination as _, Outcome};
use posthaste_publishers::Publisher as _;
use posthaste_publishers::kafka::KafkaPublisher;
use posthaste_testkit::process::free_port;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::broker::{OwnKafka, read};
use super::{deliveries, is_done, log_of_posthaste, order};
use crate::broker_faults::{Broker as _, is_out_of_reach};

const SECRET: &str = "s3ntinel-PW-9f";

/// An authority, and a broker's certificate from it, as files: `ca.pem` and `broker.pem`.
fn certificates(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "An authority");
    let ca =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("params");
    let broker = params.signed_by(&key, &ca).expect("a certificate");
    fs::write(dir.join("ca.pem"), ca.pem()).expect("a file");
    fs::write(dir.join("broker.pem"), format!("{}{}", key.serialize_pem(), broker.pem())).expect("a file");
}

/// `writer` may do everything, `reader` nothing. Whoever comes without TLS is the test.
fn settings() -> String {
    format!(
        "ssl.keystore.type=PEM
ssl.keystore.location=DIR/broker.pem
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
         required username=\"x\" password=\"x\" user_writer=\"{SECRET}\" user_reader=\"{SECRET}\";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:writer
"
    )
}

async fn answer(url: &str) -> Outcome {
    let kafka = KafkaPublisher::from_url(url).expect("a good URL");
    assert!(!format!("{kafka:?}").contains(SECRET));
    kafka.deliver(&deliveries([order("o-1")])).await.remove(0)
}

// S3, S9
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn only_who_trusts_the_broker_knows_the_password_and_is_allowed_to_gets_in() {
    let log = log_of_posthaste();
    let (ssl, sasl) = (free_port(), free_port());
    let listeners = format!(",SSL://127.0.0.1:{ssl},SASL_SSL://127.0.0.1:{sasl}");
    let Some(mut kafka) = OwnKafka::with(&listeners, &settings()).await else { return };
    certificates(kafka.dir());
    let other = tempfile::tempdir().expect("a folder");
    certificates(other.path());
    kafka.start().await;
    let (dir, other) = (kafka.dir().display().to_string(), other.path().display().to_string());

    let good = format!("kafka://writer:{SECRET}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem");
    assert_eq!(KafkaPublisher::from_url(&good).expect("a good URL").check().await, Ok(()));
    let outcome = answer(&good).await;
    assert!(is_done(&outcome), "{outcome:?}");
    assert_eq!(read(&kafka.hosts(), "events").await.len(), 1);

    for (url, reason) in [
        (format!("kafka://127.0.0.1:{ssl}/events?ca={other}/ca.pem"), "certificate verify failed"),
        (format!("kafka://localhost:{ssl}/events?ca={dir}/ca.pem"), "certificate verify failed"),
        (format!("kafka://writer:wrong-{SECRET}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem"), "uthentication"),
        (format!("kafka://nobody:{SECRET}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem"), "uthentication"),
        (format!("kafka://127.0.0.1:{sasl}/events"), ""),
    ] {
        let checked = is_out_of_reach(&url).await;
        println!("{checked}");
        assert!(checked.contains(reason), "{reason}: {checked}");
        let outcome = answer(&url).await;
        let Outcome::Unreachable(why) = &outcome else { panic!("{outcome:?}") };
        let text = why.error.to_string();
        println!("{text}");
        assert!(text.contains(reason), "{reason}: {text}");
        assert!(!text.contains(SECRET), "{text}");
    }

    let forbidden = format!("kafka://reader:{SECRET}@127.0.0.1:{sasl}/events?ca={dir}/ca.pem");
    let outcome = answer(&forbidden).await;
    let Outcome::Retry(error) = &outcome else { panic!("{outcome:?}") };
    println!("{error}");
    assert!(!error.to_string().contains(SECRET), "{error}");
    assert_eq!(read(&kafka.hosts(), "events").await.len(), 1, "nobody else got in");
    let text = log.text();
    assert_eq!(text.lines().find(|line| line.contains(SECRET)), None);
    assert!(text.contains("librdkafka"), "the library's lines are in the log");
}
