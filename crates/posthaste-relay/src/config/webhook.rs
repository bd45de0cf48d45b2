//! The settings of a route's webhooks: `[outbox.NAME.route.webhook]`.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::time::Duration;

use posthaste_publishers::PublisherError;
use posthaste_publishers::http::{HttpBuilder, HttpPublisher};

use super::section::{Section, text_of};
use super::source_text::Span;
use posthaste_admin::Secret;

/// All public authorities together are far smaller.
const MAX_CA_FILE_BYTES: u64 = 1024 * 1024;

/// How events are posted. What is left out is as in [`HttpBuilder`]. Its `Debug` tells no secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookConfig {
    /// Default: no signature.
    pub signing_key: Option<Secret>,
    /// Only beside a `signing_key`. Default: none.
    pub previous_signing_key: Option<Secret>,
    /// Of every request. Default: none.
    pub headers: Vec<(String, Secret)>,
    /// Default: https only.
    pub allow_http: bool,
    /// Beside the public Internet. Default: none.
    pub allow_networks: Vec<String>,
    /// The most at once. Default: 8.
    pub requests: Option<usize>,
    /// Default: 5 s.
    pub connect_timeout: Option<Duration>,
    /// Default: 5 MiB.
    pub max_body_bytes: Option<usize>,
    /// Default: the public authorities.
    pub ca: Option<Authorities>,
}

/// Who is believed about the receiver. What the file held is kept: a file that changed is another setting.
#[derive(Clone, PartialEq)]
pub struct Authorities {
    pub path: String,
    pem: Vec<u8>,
}

/// The file may hold a private key too.
impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.path)
    }
}

impl WebhookConfig {
    /// The publisher's settings with these in them.
    pub(super) fn apply(&self, mut builder: HttpBuilder) -> HttpBuilder {
        builder = builder.allow_networks(&self.allow_networks);
        for (name, value) in &self.headers {
            builder = builder.header(name, value.expose());
        }
        if let Some(key) = &self.signing_key {
            builder = builder.signing_key(key.expose());
        }
        if let Some(key) = &self.previous_signing_key {
            builder = builder.previous_signing_key(key.expose());
        }
        if self.allow_http {
            builder = builder.allow_http();
        }
        if let Some(requests) = self.requests {
            builder = builder.concurrency(requests);
        }
        if let Some(timeout) = self.connect_timeout {
            builder = builder.connect_timeout(timeout);
        }
        if let Some(bytes) = self.max_body_bytes {
            builder = builder.max_body_bytes(bytes);
        }
        if let Some(ca) = &self.ca {
            builder = builder.root_certificate(ca.pem.as_slice());
        }
        builder
    }
}

/// Reads the table. What is wrong is reported and left out.
pub(super) fn webhook(mut section: Section<'_, '_>) -> WebhookConfig {
    let problems = section.problems;
    let (previous_place, key_setting) =
        (section.place("previous_signing_key"), section.setting("signing_key"));
    let mut webhook = WebhookConfig {
        signing_key: signing_key(&mut section, "signing_key"),
        previous_signing_key: signing_key(&mut section, "previous_signing_key"),
        headers: headers(&mut section),
        allow_http: section.value("allow_http", "true or false").is_some_and(|(yes, _)| yes),
        allow_networks: networks(&mut section),
        requests: requests(&mut section),
        connect_timeout: connect_timeout(&mut section),
        max_body_bytes: max_body_bytes(&mut section),
        ca: authorities(&mut section),
    };
    section.finish();
    if webhook.signing_key.is_none() && webhook.previous_signing_key.take().is_some() {
        let what = "is missing: previous_signing_key stands beside it, so give both";
        problems.missing(&previous_place, &key_setting, what);
    }
    webhook
}

/// Whether the publisher takes this setting, which is the only one here. What it says is reported.
fn is_accepted(alone: WebhookConfig, section: &Section<'_, '_>, key: &str, span: &Span) -> bool {
    let built = alone.apply(HttpPublisher::builder("https://receiver.example/")).build();
    built.map_err(|error| section.wrong(key, span, advice(&error))).is_ok()
}

/// What the publisher says, without its name and that of its own setting: the problem has a place.
fn advice(error: &PublisherError) -> String {
    let text = error.to_string();
    let text = text.split_once(": ").map_or(text.as_str(), |(_, advice)| advice);
    let named = text.strip_prefix('`').and_then(|rest| rest.split_once("` "));
    named.map_or(text, |(_, advice)| advice).to_owned()
}

fn signing_key(section: &mut Section<'_, '_>, key: &'static str) -> Option<Secret> {
    let (text, span) = section.text(key)?;
    let secret = Secret::new(text);
    let alone = WebhookConfig { signing_key: Some(secret.clone()), ..WebhookConfig::default() };
    is_accepted(alone, section, key, &span).then_some(secret)
}

fn headers(section: &mut Section<'_, '_>) -> Vec<(String, Secret)> {
    let Some((table, _)) = section.table("headers") else { return Vec::new() };
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut headers = Vec::new();
    for (name, node) in entries {
        let span = node.span();
        // The name is not shown: it may be the value.
        let Some(value) = text_of(node, section.problems) else {
            section.wrong("headers", &span, "holds something that is no text: write NAME = \"value\"");
            continue;
        };
        let header = (name.get_ref().clone().into_owned(), Secret::new(value));
        let alone = WebhookConfig { headers: vec![header.clone()], ..WebhookConfig::default() };
        if is_accepted(alone, section, "headers", &span) {
            headers.push(header);
        }
    }
    headers
}

fn networks(section: &mut Section<'_, '_>) -> Vec<String> {
    let found = section.value::<Vec<String>>("allow_networks", "a list of networks, as in [\"10.0.0.0/8\"]");
    let Some((allow_networks, span)) = found else { return Vec::new() };
    let alone = WebhookConfig { allow_networks: allow_networks.clone(), ..WebhookConfig::default() };
    if is_accepted(alone, section, "allow_networks", &span) { allow_networks } else { Vec::new() }
}

fn requests(section: &mut Section<'_, '_>) -> Option<usize> {
    let (requests, span) = section.value("requests", "a whole number, 1 or more")?;
    let alone = WebhookConfig { requests: Some(requests), ..WebhookConfig::default() };
    is_accepted(alone, section, "requests", &span).then_some(requests)
}

fn connect_timeout(section: &mut Section<'_, '_>) -> Option<Duration> {
    let (timeout, span) = section.duration("connect_timeout")?;
    let alone = WebhookConfig { connect_timeout: Some(timeout), ..WebhookConfig::default() };
    is_accepted(alone, section, "connect_timeout", &span).then_some(timeout)
}

/// The publisher would take zero, and every event with a body would be dead.
fn max_body_bytes(section: &mut Section<'_, '_>) -> Option<usize> {
    let found = section.value::<NonZeroUsize>("max_body_bytes", "a whole number, 1 or more");
    found.map(|(bytes, _)| bytes.get())
}

fn authorities(section: &mut Section<'_, '_>) -> Option<Authorities> {
    let (path, span) = section.text("ca")?;
    let pem = read(&path).map_err(|error| {
        let what = format!("cannot be read ({error}): see that it is a file which this user may read");
        section.wrong("ca", &span, what);
    });
    let ca = Authorities { path, pem: pem.ok()? };
    let alone = WebhookConfig { ca: Some(ca.clone()), ..WebhookConfig::default() };
    is_accepted(alone, section, "ca", &span).then_some(ca)
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut pem = Vec::new();
    File::open(path)?.take(MAX_CA_FILE_BYTES + 1).read_to_end(&mut pem)?;
    if pem.len() as u64 > MAX_CA_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(pem)
}
