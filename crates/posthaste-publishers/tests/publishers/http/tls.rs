//! TLS: valid and invalid certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_publishers::Publisher as _;
use posthaste_publishers::http::HttpPublisher;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::event;
use super::wire::{TestServer, connection, response, serve, served};
use crate::delivery::{assert_all_delivered, deliver_one, text_of};
use crate::secrets::SENTINEL;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("an authority").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A server with a certificate for this name, and the number of requests that it received.
    async fn serve(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (TestServer, Arc<AtomicUsize>) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .expect("a certificate with its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let server = served(move |stream| {
            let (acceptor, counted) = (acceptor.clone(), Arc::clone(&counted));
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let count = |_| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    async { Some(response(200, &[], "")) }
                };
                connection(stream, count).await;
            }
        });
        (server.await, requests)
    }
}

/// A publisher to `localhost` with a secret in every setting that can contain one.
fn hooks(server: &TestServer, authority: &Authority) -> HttpPublisher {
    let url = server.url.replace("http://127.0.0.1", &format!("https://me:{SENTINEL}@localhost"));
    let hooks = HttpPublisher::builder(format!("{url}/{SENTINEL}?token={SENTINEL}"));
    let hooks = hooks.allow_networks(["127.0.0.1", "::1"]).root_certificate(authority.pem.as_str());
    hooks.build().expect("good settings")
}

// S9
#[tokio::test]
async fn certificate_of_the_configured_authority_is_trusted() {
    let authority = Authority::new();
    let (server, requests) = authority.serve("localhost", |_| {}).await;
    let hooks = hooks(&server, &authority);
    assert_eq!(hooks.check().await, Ok(()));
    assert_eq!(requests.load(Ordering::SeqCst), 0, "no request is sent");
    assert_all_delivered(&hooks, &[event(1)]).await;
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

// S9, S3
#[tokio::test]
async fn invalid_certificate_is_no_connection() {
    let (authority, other) = (Authority::new(), Authority::new());
    let good = authority.serve("localhost", |_| {}).await;
    let another_name = authority.serve("example.com", |_| {}).await;
    let expired = authority.serve("localhost", |params| params.not_after = date_time_ymd(2020, 1, 1)).await;
    let early = authority.serve("localhost", |params| params.not_before = date_time_ymd(4000, 1, 1)).await;
    for ((server, requests), authority, expected) in [
        (&good, &other, "is not signed by a trusted authority: set its authority as root_certificate"),
        (&another_name, &authority, "its certificate is for another host name"),
        (&expired, &authority, "its certificate has expired"),
        (&early, &authority, "its certificate is not valid yet: check the clocks"),
    ] {
        let hooks = hooks(server, authority);
        let text = text_of("no connection", &deliver_one(&hooks, event(1)).await);
        assert_eq!(hooks.check().await.expect_err("no connection").to_string(), text);
        assert!(text.ends_with(expected), "{text}");
        assert!(text.starts_with("cannot connect to https://localhost:"), "{text}");
        assert_eq!(requests.load(Ordering::SeqCst), 0, "{text}");
    }
}

#[tokio::test]
async fn private_authority_is_not_trusted_by_default() {
    let (server, requests) = Authority::new().serve("localhost", |_| {}).await;
    let url = server.url.replace("http://127.0.0.1", "https://localhost");
    let hooks =
        HttpPublisher::builder(url).allow_networks(["127.0.0.1", "::1"]).build().expect("good settings");
    let text = text_of("no connection", &deliver_one(&hooks, event(1)).await);
    assert!(
        text.ends_with("is not signed by a trusted authority: set its authority as root_certificate"),
        "{text}"
    );
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn server_without_tls_is_no_connection() {
    let server = serve(|_| async { Some(response(200, &[], "")) }).await;
    text_of("no connection", &deliver_one(&hooks(&server, &Authority::new()), event(1)).await);
}
