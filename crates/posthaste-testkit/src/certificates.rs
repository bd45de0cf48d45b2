//! TLS certificates signed by an authority made for the test.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Makes an authority and returns its PEM. Writes `cert.pem` and `key.pem` into this folder: a certificate signed by it
/// for `localhost` and 127.0.0.1.
pub fn certificates(dir: &Path) -> String {
    certificates_for(dir, &["localhost", "127.0.0.1"])
}

/// As [`certificates`], for a server with these names.
pub fn certificates_for(dir: &Path, names: &[&str]) -> String {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a certificate with the same name as its issuer for a self-signed one.
    params.distinguished_name.push(DnType::CommonName, "An authority");
    let authority = params.self_signed(&key).expect("an authority");
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).expect("parameters").signed_by(&key, &issuer);
    std::fs::write(dir.join("cert.pem"), certificate.expect("a certificate").pem()).expect("a file");
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).expect("a file");
    authority.pem()
}
