//! Which servers are trusted.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// A client that trusts the authorities in this PEM text, or those that browsers trust. Always by ring: an
/// application may have other providers, and rustls panics when it has to choose.
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

/// Lets libraries that ask rustls for the provider of the process have ring, unless the application has chosen
/// one: without that, rustls panics where it has several.
#[cfg(feature = "redis-streams")]
pub(crate) fn install_default_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody may have been faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The certificates in a PEM text: one at least, and each one good.
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
