//! Publisher URLs: parsing and decoding.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::error::PublisherError;
use crate::format::Format;

/// A URL, parsed and decoded: `scheme://user:password@host:port,host:port/path?name=value`.
///
/// A publisher takes the parameters that it knows by name. [`finish`](Self::finish) then refuses the URL if any are
/// left, so that a misspelt setting is an error and not a default.
pub(crate) struct PublisherUrl {
    publisher: &'static str,
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// `host:port` or `host`, one or more.
    pub(crate) hosts: Vec<String>,
    /// Decoded, without the leading slash.
    pub(crate) path: String,
    /// Parameters that have not been taken yet.
    parameters: Vec<(String, String)>,
    /// The names that the publisher has tried to take, for the error text of `finish`.
    known: Vec<&'static str>,
}

impl PublisherUrl {
    /// Parses a URL. `publisher` is the publisher's name in errors.
    pub(crate) fn parse(publisher: &'static str, url: &str) -> Result<Self, PublisherError> {
        let wrong = |problem: &str| PublisherError::new(publisher, problem);
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| wrong("the URL has no :// after its scheme"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        // A part of a password would be read as a host or a path, and shown in logs.
        if place.contains('#') || path.contains('@') {
            return Err(wrong(
                "the URL cannot be read: in its user and password write # as %23, / as %2F, ? as %3F and @ as %40",
            ));
        }
        let (login, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(login, hosts)| (Some(login), hosts));
        let (user, password) = login.map_or((None, None), |login| match login.split_once(':') {
            Some((user, password)) => (Some(user), Some(password)),
            None => (Some(login), None),
        });
        let decoded = |text: &str| {
            decode(text).ok_or_else(|| wrong("the URL has a % that is not followed by an encoded UTF-8 text"))
        };
        Ok(Self {
            publisher,
            scheme: scheme.to_owned(),
            user: user.filter(|user| !user.is_empty()).map(decoded).transpose()?,
            password: password.map(decoded).transpose()?,
            hosts: hosts.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect(),
            path: decoded(path)?,
            parameters: query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Ok((decoded(name)?, decoded(value)?))
                })
                .collect::<Result<_, PublisherError>>()?,
            known: Vec::new(),
        })
    }

    /// Takes a parameter and returns its value, or `None` if it is absent.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let at = self.parameters.iter().position(|(other, _)| other == name)?;
        Some(self.parameters.remove(at).1)
    }

    /// Takes a parameter and parses it. `what` describes a valid value in the error.
    pub(crate) fn take_as<T: std::str::FromStr>(
        &mut self,
        name: &'static str,
        what: &str,
    ) -> Result<Option<T>, PublisherError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let value = text.parse().map_err(|_| self.wrong(format!("`{name}` of the URL must be {what}")))?;
        Ok(Some(value))
    }

    /// Takes the parameter `format`.
    pub(crate) fn take_format(&mut self) -> Result<Option<Format>, PublisherError> {
        self.take_as("format", "raw, envelope, cloudevents, cloudevents-structured or debezium")
    }

    /// Takes all remaining parameters, for settings that are passed to a client library unchanged.
    #[allow(dead_code, reason = "only Kafka's library has settings by name")]
    pub(crate) fn take_rest(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.parameters)
    }

    /// Refuses the URL if any parameter was not taken.
    pub(crate) fn finish(self) -> Result<(), PublisherError> {
        if self.parameters.is_empty() {
            return Ok(());
        }
        // Neither name nor value is shown: if a password contained an unescaped character, either may be a part of
        // it.
        let known = if self.known.is_empty() {
            "it takes no parameters".to_owned()
        } else {
            format!("it takes {}", self.known.join(", "))
        };
        Err(self.wrong(format!("the URL has an unknown parameter: {known}")))
    }

    /// An error about this URL.
    pub(crate) fn wrong(&self, problem: impl Into<String>) -> PublisherError {
        PublisherError::new(self.publisher, problem)
    }
}

/// Leaves out user, password and parameters: each may be a secret.
impl fmt::Debug for PublisherUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme, self.hosts.join(","), self.path)
    }
}

fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_taken_apart_and_decoded() {
        let mut url = PublisherUrl::parse(
            "Kafka",
            "kafka://me:p%40ss@one:9092,two:9092/orders%2F1?format=raw&linger=5",
        )
        .expect("a URL");
        assert_eq!(url.scheme, "kafka");
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("me"), Some("p@ss")));
        assert_eq!(url.hosts, ["one:9092", "two:9092"]);
        assert_eq!(url.path, "orders/1");
        assert_eq!(url.take("format").as_deref(), Some("raw"));
        assert_eq!(url.take_as::<u32>("linger", "a number").ok(), Some(Some(5)));
        assert_eq!(url.take("nothing"), None);
        assert!(url.finish().is_ok());
    }

    #[test]
    fn no_error_contains_a_secret() {
        for url in [
            "s3ntinel",
            "kafka://me:s3ntinel#x@host/",
            "kafka://me:s3ntinel/x@host/",
            "kafka://me:x@host/?s3ntinel=1",
            "kafka://me:s3ntinel%ff@host/",
        ] {
            let error = PublisherUrl::parse("Kafka", url).and_then(PublisherUrl::finish).expect_err(url);
            assert!(!error.to_string().contains("s3ntinel"), "{error}");
        }
        let mut url = PublisherUrl::parse("Kafka", "kafka://u:s3ntinel@host/?batch=s3ntinel").expect("a URL");
        let error = url.take_as::<u32>("batch", "a number").expect_err("no number");
        assert_eq!(error.to_string(), "Kafka: `batch` of the URL must be a number");
        assert!(!format!("{url:?}").contains("s3ntinel"));
    }

    #[test]
    fn misspelt_parameter_is_refused_with_the_list_of_known_ones() {
        let mut url = PublisherUrl::parse("NATS", "nats://host/orders?fromat=raw").expect("a URL");
        assert_eq!(url.take("format"), None);
        let error = url.finish().expect_err("misspelt");
        assert_eq!(error.to_string(), "NATS: the URL has an unknown parameter: it takes format");
    }
}
