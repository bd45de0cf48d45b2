//! Target: one destination of a route, and the publisher that is built from it.

use std::sync::Arc;

use posthaste_publishers::http::{HttpBuilder, HttpPublisher};
use posthaste_publishers::{Format, Publisher, PublisherError, publisher};

use super::WebhookConfig;
use super::optional_setting::set;
use posthaste_stores::SecretUrl;

/// The formats by name.
pub(super) const FORMATS: &[(&str, Format)] = &[
    ("raw", Format::Raw),
    ("envelope", Format::Envelope),
    ("cloudevents", Format::CloudEvents),
    ("cloudevents-structured", Format::CloudEventsStructured),
    ("debezium", Format::Debezium),
];

/// One destination of a route. Its `Debug` shows no secret.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Target {
    /// The name, if the route has several destinations. Default: `None`, it is the only one.
    pub name: Option<String>,
    /// The URL of the publisher, as it was typed.
    pub url: SecretUrl,
    /// `format` of the route. Default: that of the URL, or else that of the publisher.
    pub format: Option<Format>,
    /// `webhook` of the route, for `http` and `https` only. Default: every setting at its default.
    pub webhook: Option<WebhookConfig>,
}

impl Target {
    /// The destination at this URL.
    pub fn new(url: SecretUrl) -> Self {
        Self { name: None, url, format: None, webhook: None }
    }

    /// Checks all settings and builds the publisher, without connecting.
    ///
    /// # Errors
    ///
    /// The URL or a setting is invalid; the error says what to write.
    pub fn publisher(&self) -> Result<Arc<dyn Publisher>, PublisherError> {
        if !self.is_webhook() {
            return publisher(&self.url_with_format());
        }
        let builder = HttpPublisher::builder(self.url.expose());
        let builder = set(builder, self.format, HttpBuilder::format);
        let builder = set(builder, self.webhook.as_ref(), |builder, webhook| webhook.apply(builder));
        Ok(Arc::new(builder.build()?))
    }

    /// The target without its name. Two targets that are equal then can share a publisher.
    pub fn nameless(&self) -> Self {
        Self { name: None, ..self.clone() }
    }

    pub(super) fn is_webhook(&self) -> bool {
        ["http", "https"].contains(&self.scheme())
    }

    /// Whether events would be sent unencrypted and the route does not allow that.
    pub(super) fn is_in_the_clear(&self) -> bool {
        self.scheme() == "http" && !self.webhook.as_ref().is_some_and(|webhook| webhook.allow_http)
    }

    /// Whether both the route and the URL set a format. The query of a webhook belongs to its endpoint, so it sets
    /// none.
    pub(super) fn says_format_twice(&self) -> bool {
        let query = self.url.expose().split_once('?').map_or("", |(_, query)| query);
        let in_url = query.split('&').any(|pair| pair.starts_with("format="));
        !self.is_webhook() && self.format.is_some() && in_url
    }

    fn scheme(&self) -> &str {
        self.url.expose().split(':').next().unwrap_or_default()
    }

    fn url_with_format(&self) -> String {
        let url = self.url.expose();
        match self.format.and_then(format_name) {
            Some(name) if url.contains('?') => format!("{url}&format={name}"),
            Some(name) => format!("{url}?format={name}"),
            None => url.to_owned(),
        }
    }
}

pub(super) fn format_name(format: Format) -> Option<&'static str> {
    FORMATS.iter().find(|(_, known)| *known == format).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, format: Option<Format>) -> Target {
        Target { format, ..Target::new(SecretUrl::new(url)) }
    }

    #[test]
    fn format_goes_into_the_url_of_a_broker() {
        for (url, full) in [
            ("stdout:", "stdout:?format=envelope"),
            ("file:///x?fsync=true", "file:///x?fsync=true&format=envelope"),
        ] {
            assert_eq!(target(url, Some(Format::Envelope)).url_with_format(), full);
            assert_eq!(target(url, None).url_with_format(), url);
        }
        assert!(target("stdout:?format=raw", Some(Format::Envelope)).says_format_twice());
        assert!(!target("stdout:?format=raw", None).says_format_twice());
        assert!(!target("https://h/?format=raw", Some(Format::Envelope)).says_format_twice());
    }

    #[test]
    fn every_format_has_the_name_that_publishers_know() {
        for (name, format) in FORMATS {
            assert_eq!(name.parse(), Ok(*format));
            assert_eq!(format_name(*format), Some(*name));
        }
    }
}
