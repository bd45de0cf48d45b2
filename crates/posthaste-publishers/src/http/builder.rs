//! Builder: reads and checks the settings of a webhook publisher.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::{Client, redirect};
use tokio::sync::Semaphore;

use super::address_filter::{self, AddressFilter, DnsLookup, Network};
use super::endpoint::Endpoint;
use super::signature::SigningKey;
use super::{HttpPublisher, Inner, headers, wrong};
use crate::error::PublisherError;
use crate::format::Format;
use crate::redacted::Redacted;
use crate::settings::{CommonSettings, DEFAULT_TIMEOUT};

/// How long an unused connection is kept. Shorter than the idle timeout of common servers, so that no request is
/// sent on a connection that the server is closing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Settings of an [`HttpPublisher`]. Nothing is checked before [`build`](Self::build).
#[derive(Clone, Debug)]
pub struct HttpBuilder {
    common: CommonSettings,
    url: Redacted<String>,
    key: Option<Redacted<String>>,
    previous_key: Option<Redacted<String>>,
    headers: Redacted<Vec<(String, String)>>,
    concurrency: usize,
    connect_timeout: Duration,
    allow_http: bool,
    networks: Vec<String>,
    lookup: Redacted<DnsLookup>,
}

/// The default limit of a request body.
const DEFAULT_MAX_BODY_BYTES: usize = 5 * 1024 * 1024;

impl HttpBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            common: CommonSettings::new(DEFAULT_TIMEOUT, Some(DEFAULT_MAX_BODY_BYTES)),
            url: Redacted(url),
            key: None,
            previous_key: None,
            headers: Redacted::default(),
            concurrency: 8,
            connect_timeout: Duration::from_secs(5),
            allow_http: false,
            networks: Vec::new(),
            lookup: Redacted(address_filter::system_lookup()),
        }
    }

    /// Signs every request with this key: `whsec_` and 24 to 64 bytes in base64. The receiver has the same key.
    /// Default: no signature.
    pub fn signing_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Redacted(key.into()));
        self
    }

    /// Also signs every request with the previous key while receivers change to the new one: a request then carries
    /// both signatures. Default: none.
    pub fn previous_signing_key(mut self, key: impl Into<String>) -> Self {
        self.previous_key = Some(Redacted(key.into()));
        self
    }

    /// Adds a header to every request, for example `Authorization`. Its value appears in no error or log. Headers
    /// of events cannot replace it. Default: none.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The format of requests. Default: [`Format::Raw`], the payload unchanged.
    pub fn format(mut self, format: Format) -> Self {
        self.common.format = format;
        self
    }

    /// The largest number of concurrent requests, over all calls, 1 to 10000. Default: 8.
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests;
        self
    }

    /// How long a batch may take, up to 1 hour. A single request has between half of this time and all of it. Keep
    /// it below the route's timeout, which is 10 s by default. Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = timeout;
        self
    }

    /// How long the name lookup, the connection and the TLS handshake may take together, up to 1 hour.
    /// Default: 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The largest request body in bytes. An event with a larger body is DEAD. Default: 5 MiB.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.common.max_message_bytes = Some(bytes);
        self
    }

    /// Allows `http:` URLs, which send events unencrypted. Default: `https:` only.
    pub fn allow_http(mut self) -> Self {
        self.allow_http = true;
        self
    }

    /// Allows networks besides the public Internet: `10.0.0.0/8`, `fd00::/8`, `127.0.0.1`. Default: none, so that a
    /// name or an address of this machine, of its network or of a cloud's metadata service is refused.
    pub fn allow_networks(mut self, networks: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.networks.extend(networks.into_iter().map(Into::into));
        self
    }

    /// Trusts the certificate authorities in this PEM text and no others. Default: the public ones that browsers
    /// trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.common.root_certificate = Some(Redacted(pem.into()));
        self
    }

    /// Replaces the DNS lookup.
    #[cfg(test)]
    pub(super) fn lookup(mut self, lookup: DnsLookup) -> Self {
        self.lookup = Redacted(lookup);
        self
    }

    /// Checks every setting and returns the publisher, which connects on first use.
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the first wrong setting and how to write it.
    pub fn build(self) -> Result<HttpPublisher, PublisherError> {
        self.check()?;
        let address_filter = AddressFilter::new(self.networks()?, Arc::clone(&self.lookup));
        let endpoint = Endpoint::parse(&self.url, self.allow_http, &address_filter)?;
        let headers = self.all_headers(&endpoint)?;
        let tls = self.common.tls_client().map_err(wrong)?;
        let client = self.client(address_filter.clone(), tls.clone())?;
        Ok(HttpPublisher {
            inner: Arc::new(Inner {
                client,
                address_filter,
                tls: Arc::new(tls),
                connect_timeout: self.connect_timeout.min(self.common.timeout),
                headers,
                endpoint,
                keys: self.keys()?,
                common: self.common,
                concurrency: self.concurrency,
                requests: Semaphore::new(self.concurrency),
                last_response: Mutex::default(),
            }),
        })
    }

    fn check(&self) -> Result<(), PublisherError> {
        if !(1..=10_000).contains(&self.concurrency) {
            return Err(wrong("`concurrency` must be 1 to 10000"));
        }
        for (name, time) in [("timeout", self.common.timeout), ("connect_timeout", self.connect_timeout)] {
            if time.is_zero() || time > Duration::from_secs(3_600) {
                return Err(wrong(format!("`{name}` must be longer than zero and at most an hour")));
            }
        }
        Ok(())
    }

    fn networks(&self) -> Result<Vec<Network>, PublisherError> {
        let parsed = self.networks.iter().map(|text| text.parse());
        parsed
            .collect::<Result<_, address_filter::InvalidNetwork>>()
            .map_err(|error| wrong(error.to_string()))
    }

    fn keys(&self) -> Result<Vec<SigningKey>, PublisherError> {
        if self.key.is_none() && self.previous_key.is_some() {
            return Err(wrong("`previous_signing_key` needs a `signing_key`: give both"));
        }
        let keys = self.key.iter().chain(&self.previous_key);
        keys.map(|key| SigningKey::parse(key).map_err(|error| wrong(error.to_string()))).collect()
    }

    fn all_headers(&self, endpoint: &Endpoint) -> Result<HeaderMap, PublisherError> {
        let agent = concat!("posthaste/", env!("CARGO_PKG_VERSION"));
        let mut all = HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static(agent))]);
        all.extend(endpoint.login.clone().map(|login| (header::AUTHORIZATION, login)));
        for (name, value) in self.headers.iter() {
            // Neither is shown: the user may have swapped name and value.
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong("`header` was given a name that is not a valid HTTP header name"))?;
            let is_login = [header::AUTHORIZATION, header::COOKIE].contains(&name);
            if headers::is_set_by_publisher(&name) || (headers::is_forbidden(&name) && !is_login) {
                return Err(wrong(format!(
                    "`header` cannot set {name}: the publisher sets it for each request"
                )));
            }
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                wrong(format!("the value that `header` was given for {name} is not plain ASCII"))
            })?;
            value.set_sensitive(true);
            if all.insert(name.clone(), value).is_some() {
                return Err(wrong(format!("{name} was given twice, by `header` or by the URL's user")));
            }
        }
        Ok(all)
    }

    fn client(
        &self,
        address_filter: AddressFilter,
        tls: rustls::ClientConfig,
    ) -> Result<Client, PublisherError> {
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .retry(reqwest::retry::never())
            .http1_only()
            .https_only(!self.allow_http)
            .dns_resolver(address_filter)
            .tls_backend_preconfigured(tls)
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(self.concurrency)
            .build();
        client.map_err(|error| wrong("the client cannot be set up").because(error.without_url()))
    }
}
