//! TLS client configuration: trusted certificate authorities and the crypto provider.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// A TLS client that trusts the authorities in this PEM text, or the public ones if there is none. It names ring as
/// the provider, because an application may link several providers, and rustls panics when it must choose one.
#[cfg(any(feature = "amqp", feature = "http", feature = "nats"))]
pub(crate) fn client_config(authorities: Option<&[u8]>) -> Result<rustls::ClientConfig, String> {
    let roots = match authorities {
        Some(pem) => root_store(pem)?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Installs ring as the provider of the process unless the application has installed one. Libraries that use the
/// process's provider would otherwise panic if several are linked.
#[cfg(feature = "redis-streams")]
pub(crate) fn install_default_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have installed a provider in the meantime, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Parses the certificates of a PEM text. There must be at least one, and all must be valid.
pub(crate) fn root_store(pem: &[u8]) -> Result<RootCertStore, String> {
    let wrong = "the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it";
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| wrong.to_owned())?;
        roots.add(certificate).map_err(|_| wrong.to_owned())?;
    }
    if roots.is_empty() { Err(wrong.to_owned()) } else { Ok(roots) }
}

#[cfg(all(test, any(feature = "amqp", feature = "http", feature = "nats")))]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_cannot_be_read_are_refused() {
        for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(client_config(Some(pem.as_bytes())).is_err(), "{pem}");
        }
        assert!(client_config(None).is_ok());
    }
}
