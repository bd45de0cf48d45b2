//! The outcome of a request that got no HTTP response: errors of DNS, TCP, TLS and of the client.

use std::error::Error;
use std::io;

use posthaste::Outcome;
use rustls::CertificateError;

use super::address_filter::NotPublic;
use crate::one_line::one_line;
use crate::unreached::UNREACHABLE_ADVICE;

/// The URL is in no text, as it may hold secrets; `endpoint` is what may be shown of it.
pub(super) fn outcome_of(error: reqwest::Error, endpoint: &str) -> Outcome {
    let error = error.without_url();
    if error.is_connect() {
        return Outcome::no_connection(no_connection(&error, endpoint));
    }
    let why = known_cause(&error).unwrap_or_else(|| last_cause(&error));
    Outcome::no_answer(format!("{endpoint} gave no answer in HTTP: {why}"))
}

/// Why there is no connection, and what to do.
pub(super) fn no_connection(error: &(dyn Error + 'static), endpoint: &str) -> String {
    let why = known_cause(error).unwrap_or_else(|| format!("{}: {UNREACHABLE_ADVICE}", last_cause(error)));
    format!("cannot connect to {endpoint}: {why}")
}

fn known_cause(error: &(dyn Error + 'static)) -> Option<String> {
    for cause in causes(error) {
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return Some(tls_reason(error));
        }
        if let Some(error) = cause.downcast_ref::<NotPublic>() {
            return Some(error.to_string());
        }
    }
    let is_late = error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout);
    is_late.then(|| format!("it took longer than connect_timeout: {UNREACHABLE_ADVICE}"))
}

/// The last cause is the one that names the fact, and knows no URL.
fn last_cause(error: &(dyn Error + 'static)) -> String {
    one_line(causes(error).last().map(ToString::to_string).unwrap_or_default())
}

fn tls_reason(error: &rustls::Error) -> String {
    let certificate = match error {
        rustls::Error::InvalidCertificate(certificate) => certificate,
        other => return format!("TLS: {}", one_line(other.to_string())),
    };
    let text = match certificate {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is signed by nobody we trust: give its authority as root_certificate"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another host name"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: check the clocks"
        }
        other => return format!("its certificate is not valid: {}", one_line(other.to_string())),
    };
    text.to_owned()
}

/// The error and all that it came from. An I/O error skips the error in it when asked for its source.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}
