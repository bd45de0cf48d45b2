//! Reads `[outbox.NAME.route.webhook]`, the settings of a route's webhooks.

#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use posthaste_admin::Secret;
use posthaste_publishers::http::{HttpBuilder, HttpPublisher};
use serde::Serialize;

use super::known_keys::Keys;
use super::known_keys::Sensitivity::{Hidden, Public};
use super::optional_setting::set;
use super::section::Section;
use super::{bounded_file, serde_with};

pub(super) const WEBHOOK: Keys = &[
    (Hidden, &["signing_key", "previous_signing_key", "headers"]),
    (Public, &["allow_http", "allow_networks", "requests", "connect_timeout", "max_body_bytes", "ca"]),
];

const WHOLE: &str = "a whole number, 1 or more";

/// All public authorities together are far smaller.
const MAX_CA_FILE_BYTES: u64 = 1024 * 1024;

/// The settings of webhooks. Those that are not set have the default of [`HttpBuilder`]. Its `Debug` shows no secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// The key that signs requests. Default: `None`, no signature.
    pub signing_key: Option<Secret>,
    /// A second key that signs requests, while receivers change to the new one. It needs a `signing_key`. Default:
    /// `None`.
    pub previous_signing_key: Option<Secret>,
    /// Headers of every request. Default: empty.
    #[serde(serialize_with = "serde_with::headers", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, Secret)>,
    /// Whether `http` URLs are allowed. Default: no, `https` only.
    pub allow_http: bool,
    /// Networks that may be reached besides the public Internet, such as `10.0.0.0/8`. Default: empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_networks: Vec<String>,
    /// The most requests at the same time. Default: 8.
    pub requests: Option<usize>,
    /// The longest that a connection may take to be made. Default: 5 s.
    #[serde(serialize_with = "serde_with::duration")]
    pub connect_timeout: Option<Duration>,
    /// The largest body; an event with a larger one becomes DEAD. Default: 5 MiB.
    pub max_body_bytes: Option<usize>,
    /// The certificate authorities that are trusted. Default: the public ones.
    pub ca: Option<Authorities>,
}

/// Certificate authorities in a PEM file. The contents are kept, so that a file that has changed counts as a changed
/// setting at a reload.
#[derive(Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Authorities {
    /// The path of the file.
    pub path: String,
    #[serde(skip)]
    pem: Vec<u8>,
}

/// Shows the path only: the file may contain a private key too.
impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.path)
    }
}

impl WebhookConfig {
    /// Applies these settings to a publisher's builder.
    pub(super) fn apply(&self, builder: HttpBuilder) -> HttpBuilder {
        let mut builder = builder.allow_networks(&self.allow_networks);
        for (name, value) in &self.headers {
            builder = builder.header(name, value.expose());
        }
        if self.allow_http {
            builder = builder.allow_http();
        }
        let key = |key: &Option<Secret>| key.as_ref().map(|key| key.expose().to_owned());
        let builder = set(builder, key(&self.signing_key), HttpBuilder::signing_key);
        let builder = set(builder, key(&self.previous_signing_key), HttpBuilder::previous_signing_key);
        let builder = set(builder, self.requests, HttpBuilder::concurrency);
        let builder = set(builder, self.connect_timeout, HttpBuilder::connect_timeout);
        let builder = set(builder, self.max_body_bytes, HttpBuilder::max_body_bytes);
        set(builder, self.ca.as_ref(), |builder, ca| builder.root_certificate(ca.pem.as_slice()))
    }

    /// Checks the settings with the publisher's builder. The error leaves out the publisher and the setting, because
    /// the problem has a place.
    fn check(&self) -> Result<(), String> {
        let built = self.apply(HttpPublisher::builder("https://receiver.example/")).build();
        built.map(|_| ()).map_err(|error| {
            let text = error.to_string();
            let advice = text.split_once(": ").map_or(text.as_str(), |(_, advice)| advice);
            let named = advice.strip_prefix('`').and_then(|rest| rest.split_once("` "));
            named.map_or(advice, |(_, advice)| advice).to_owned()
        })
    }
}

/// Reads the table. Invalid settings are reported and left out.
pub(super) fn webhook(section: Section<'_, '_>) -> WebhookConfig {
    let section = section.only(WEBHOOK);
    let signing_key = |key: &str| {
        let secret = section.text(key).map(Secret::new);
        accepted(&section, key, secret, |alone, secret| alone.signing_key = Some(secret))
    };
    let networks = section.value("allow_networks", "a list of networks, as in [\"10.0.0.0/8\"]");
    let requests = section.value("requests", WHOLE);
    let timeout = section.duration("connect_timeout");
    let ca = section.parse("ca", authorities);
    let mut webhook = WebhookConfig {
        signing_key: signing_key("signing_key"),
        previous_signing_key: signing_key("previous_signing_key"),
        headers: headers(&section),
        allow_http: section.flag("allow_http"),
        allow_networks: accepted(&section, "allow_networks", networks, |alone, networks| {
            alone.allow_networks = networks;
        })
        .unwrap_or_default(),
        requests: accepted(&section, "requests", requests, |alone, requests| alone.requests = Some(requests)),
        connect_timeout: accepted(&section, "connect_timeout", timeout, |alone, timeout| {
            alone.connect_timeout = Some(timeout);
        }),
        // The publisher accepts zero, with which every event that has a body would become DEAD.
        max_body_bytes: section.value("max_body_bytes", WHOLE).map(NonZeroUsize::get),
        ca: accepted(&section, "ca", ca, |alone, ca| alone.ca = Some(ca)),
    };
    if webhook.signing_key.is_none() && webhook.previous_signing_key.take().is_some() {
        let what = "is missing: previous_signing_key needs it, so give both";
        let place = section.place("previous_signing_key");
        section.problems.missing(&place, &section.setting("signing_key"), what);
    }
    webhook
}

/// Returns the value if the publisher accepts it as its only setting; reports the publisher's error otherwise.
fn accepted<T: Clone>(
    section: &Section<'_, '_>,
    key: &str,
    value: Option<T>,
    set: impl FnOnce(&mut WebhookConfig, T),
) -> Option<T> {
    section.check(key, value, |value| {
        let mut alone = WebhookConfig::default();
        set(&mut alone, value.clone());
        alone.check().map(|()| value)
    })
}

fn headers(section: &Section<'_, '_>) -> Vec<(String, Secret)> {
    let Some(table) = section.section("headers") else { return Vec::new() };
    let mut headers = Vec::new();
    for (name, node) in table.entries() {
        // The name of the header is not shown: the two may have been swapped, and it may be the secret value.
        let Some(value) = section.text_of(node) else {
            let what = "contains a value that is not text: write NAME = \"value\"";
            section.add(&node.span(), "headers", what);
            continue;
        };
        let header = (name.to_owned(), Secret::new(value));
        let alone = WebhookConfig { headers: vec![header.clone()], ..WebhookConfig::default() };
        match alone.check() {
            Ok(()) => headers.push(header),
            Err(what) => section.add(&node.span(), "headers", what),
        }
    }
    headers
}

fn authorities(path: String) -> Result<Authorities, String> {
    let read = bounded_file::read(&path, MAX_CA_FILE_BYTES, "it is larger than 1 MiB");
    let cannot_be_read =
        |error| format!("cannot be read ({error}): check that it is a file that this user may read");
    Ok(Authorities { pem: read.map_err(cannot_be_read)?, path })
}
