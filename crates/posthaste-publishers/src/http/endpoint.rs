//! The endpoint: the URL that receives all events of a publisher.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use reqwest::Url;

use super::address_filter::AddressFilter;
use super::wrong;
use crate::error::PublisherError;

pub(super) struct Endpoint {
    /// Without user and password.
    pub(super) url: Url,
    /// Scheme, host and port, for errors. The path and the query of a webhook are often secrets.
    pub(super) shown: String,
    /// User and password of the URL, as the value of `Authorization`.
    pub(super) login: Option<HeaderValue>,
}

impl Endpoint {
    pub(super) fn parse(
        text: &str,
        allow_http: bool,
        address_filter: &AddressFilter,
    ) -> Result<Self, PublisherError> {
        // The library's error does not quote the URL.
        let mut url = Url::parse(text)
            .map_err(|error| wrong(format!("the URL cannot be read ({error}): write https://host/path")))?;
        // A part of a password would be read as a host, and shown in errors.
        if url.fragment().is_some() || url.path().contains('@') {
            return Err(wrong(
                "the URL cannot be read: write # as %23, and @ in its path or password as %40",
            ));
        }
        match url.scheme() {
            "https" => {}
            "http" if allow_http => {}
            "http" => {
                return Err(wrong("http sends events unencrypted: write https, or allow it with allow_http"));
            }
            _ => return Err(wrong("write the URL as https://host/path")),
        }
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() {
            return Err(wrong("the URL has no host"));
        }
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            address_filter.check(address).map_err(|error| wrong(error.to_string()))?;
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let shown = format!("{}://{host}{port}", url.scheme());
        let login = login(&url)?;
        // Both calls succeed for a URL that has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(Self { url, shown, login })
    }
}

fn login(url: &Url) -> Result<Option<HeaderValue>, PublisherError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let mut text: Vec<u8> = percent_decode_str(url.username()).collect();
    text.push(b':');
    text.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(text)))
        .map_err(|_| wrong("user and password of the URL contain characters that a header cannot carry"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::super::address_filter::system_lookup;
    use super::*;

    fn parse(url: &str) -> Result<Endpoint, PublisherError> {
        Endpoint::parse(url, false, &AddressFilter::new(Vec::new(), system_lookup()))
    }

    #[test]
    fn query_stays_in_the_url_and_the_login_becomes_a_header() {
        let endpoint = parse("https://me:p%40ss@Example.com:8443/a/b?format=x").expect("a URL");
        assert_eq!(endpoint.url.as_str(), "https://example.com:8443/a/b?format=x");
        assert_eq!(endpoint.shown, "https://example.com:8443");
        let login = endpoint.login.expect("a login");
        assert_eq!(login, "Basic bWU6cEBzcw==");
        assert!(!format!("{login:?}").contains("bWU6"));
    }

    // S7: every notation of an address
    #[test]
    fn literal_addresses_are_checked() {
        let hosts = "127.0.0.1 127.1 2130706433 0x7f000001 0177.0.0.1 127.0.0.1. [::1] \
            [::ffff:127.0.0.1] 169.254.169.254 [64:ff9b::7f00:1] 0 ①②⑦.0.0.1";
        for host in hosts.split(' ') {
            let error = parse(&format!("https://{host}/x")).err().expect(host).to_string();
            assert!(error.contains("is not a public address"), "{host}: {error}");
        }
        assert!(parse("https://8.8.8.8/x").is_ok());
    }

    // S3
    #[test]
    fn errors_say_how_to_write_the_url_and_contain_no_secret() {
        for (url, text) in [
            (
                "s3ntinel",
                "HTTP: the URL cannot be read (relative URL without a base): write https://host/path",
            ),
            ("ftp://h/s3ntinel", "HTTP: write the URL as https://host/path"),
            (
                "http://h/s3ntinel",
                "HTTP: http sends events unencrypted: write https, or allow it with allow_http",
            ),
            (
                "https://me:s3ntinel/x@host/",
                "HTTP: the URL cannot be read (invalid port number): write https://host/path",
            ),
            (
                "https://me:1/s3ntinel@host/",
                "HTTP: the URL cannot be read: write # as %23, and @ in its path or password as %40",
            ),
            (
                "https://me:1#s3ntinel@host/",
                "HTTP: the URL cannot be read: write # as %23, and @ in its path or password as %40",
            ),
        ] {
            assert_eq!(parse(url).err().expect(url).to_string(), text, "{url}");
        }
    }
}
