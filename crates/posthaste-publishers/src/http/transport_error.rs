//! Outcomes of requests without a response: DNS, TCP, TLS and client errors.

use std::error::Error;
use std::io;

use posthaste::Outcome;
use rustls::CertificateError;

use super::address_filter::NotPublic;
use crate::check_error::UNREACHABLE_ADVICE;
use crate::operator_text::one_line;

/// Returns the outcome for a client error. The text contains `endpoint` and never the URL, which may contain
/// secrets.
pub(super) fn outcome_of(error: reqwest::Error, endpoint: &str) -> Outcome {
    let error = error.without_url();
    if error.is_connect() {
        return Outcome::no_connection(no_connection(&error, endpoint));
    }
    let why = known_cause(&error).unwrap_or_else(|| last_cause(&error));
    Outcome::no_answer(format!("{endpoint} sent no HTTP response: {why}"))
}

/// The text for a connection that could not be opened, with the next step for the operator.
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

/// The text of the innermost cause, which names the actual failure and does not contain the URL.
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
            "its certificate is not signed by a trusted authority: set its authority as root_certificate"
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

/// The error and its chain of causes. The `source` of an I/O error skips the error that it wraps, so that one is
/// added.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}
