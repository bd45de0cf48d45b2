//! The settings of webhooks, each with its default.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::{Client, redirect};
use tokio::sync::Semaphore;

use super::address_filter::{self, AddressFilter, DnsLookup, Network};
use super::endpoint::Endpoint;
use super::signature::SigningKey;
use super::{HttpPublisher, Inner, NAME, headers};
use crate::error::PublisherError;
use crate::format::Format;
use crate::tls;

/// Shorter than what common servers keep a connection open that is not used: a request must not meet its end.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// The settings of an [`HttpPublisher`]. Nothing is checked before [`build`](Self::build).
#[derive(Clone)]
pub struct HttpBuilder {
    url: String,
    key: Option<String>,
    previous_key: Option<String>,
    headers: Vec<(String, String)>,
    format: Format,
    concurrency: usize,
    timeout: Duration,
    connect_timeout: Duration,
    max_body_bytes: usize,
    allow_http: bool,
    networks: Vec<String>,
    authorities: Option<Vec<u8>>,
    lookup: DnsLookup,
}

impl HttpBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            key: None,
            previous_key: None,
            headers: Vec::new(),
            format: Format::default(),
            concurrency: 8,
            timeout: Duration::from_secs(9),
            connect_timeout: Duration::from_secs(5),
            max_body_bytes: 5 * 1024 * 1024,
            allow_http: false,
            networks: Vec::new(),
            authorities: None,
            lookup: address_filter::system_lookup(),
        }
    }

    /// Signs every request with this key: `whsec_` and 24 to 64 bytes in base64, as the receiver has it.
    /// Default: no signature.
    pub fn signing_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Signs with this key too while receivers change over to the new one: a request then carries both
    /// signatures. Default: none.
    pub fn previous_signing_key(mut self, key: impl Into<String>) -> Self {
        self.previous_key = Some(key.into());
        self
    }

    /// A header of every request, for example `Authorization`. Its value is kept out of errors and logs. No
    /// header of an event takes its place. Default: none.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// What a request looks like. Default: [`Format::Raw`], the payload as it is.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// The most requests at once, over all calls. Default: 8.
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests;
        self
    }

    /// How long a batch may take; a request has between half and all of it. Keep it below the engine's
    /// `publish_timeout`, which is 10 s. Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long it may take to look up the name, connect and agree on TLS. Default: 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The most bytes of a body; an event with more is dead. Default: 5 MiB.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Allows URLs with `http:`. Everybody on the way can read the events then. Default: `https:` only.
    pub fn allow_http(mut self) -> Self {
        self.allow_http = true;
        self
    }

    /// Networks that may be reached beside the public Internet: `10.0.0.0/8`, `fd00::/8`, `127.0.0.1`.
    /// Default: none, so that a name or an address that leads to this machine, its network or a cloud's
    /// metadata is refused.
    pub fn allow_networks(mut self, networks: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.networks.extend(networks.into_iter().map(Into::into));
        self
    }

    /// Believes the authorities in this PEM text, and no others. Default: the public ones, as browsers know
    /// them.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Looks names up in another way.
    #[cfg(test)]
    pub(super) fn lookup(mut self, lookup: DnsLookup) -> Self {
        self.lookup = lookup;
        self
    }

    /// Checks every setting, and connects nowhere.
    pub fn build(self) -> Result<HttpPublisher, PublisherError> {
        self.check()?;
        let address_filter = AddressFilter::new(self.networks()?, Arc::clone(&self.lookup));
        let endpoint = Endpoint::parse(&self.url, self.allow_http, &address_filter)?;
        let headers = self.all_headers(&endpoint)?;
        let tls = tls::client_config(self.authorities.as_deref()).map_err(wrong)?;
        let client = self.client(address_filter.clone(), tls.clone())?;
        Ok(HttpPublisher {
            inner: Arc::new(Inner {
                client,
                address_filter,
                tls: Arc::new(tls),
                connect_timeout: self.connect_timeout.min(self.timeout),
                headers,
                endpoint,
                keys: self.keys()?,
                format: self.format,
                max_body_bytes: self.max_body_bytes,
                timeout: self.timeout,
                concurrency: self.concurrency,
                requests: Semaphore::new(self.concurrency),
                last_answer: Mutex::default(),
            }),
        })
    }

    fn check(&self) -> Result<(), PublisherError> {
        if !(1..=10_000).contains(&self.concurrency) {
            return Err(wrong("`concurrency` must be 1 to 10000"));
        }
        for (name, time) in [("timeout", self.timeout), ("connect_timeout", self.connect_timeout)] {
            if time.is_zero() || time > Duration::from_secs(3_600) {
                return Err(wrong(format!("`{name}` must be more than nothing and at most an hour")));
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
            return Err(wrong("`previous_signing_key` stands beside a `signing_key`: give both"));
        }
        let keys = self.key.iter().chain(&self.previous_key);
        keys.map(|key| SigningKey::parse(key).map_err(|error| wrong(error.to_string()))).collect()
    }

    fn all_headers(&self, endpoint: &Endpoint) -> Result<HeaderMap, PublisherError> {
        let agent = concat!("posthaste/", env!("CARGO_PKG_VERSION"));
        let mut all = HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static(agent))]);
        all.extend(endpoint.login.clone().map(|login| (header::AUTHORIZATION, login)));
        for (name, value) in &self.headers {
            // Neither is shown: they may have been given the wrong way round.
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong("`header` was given a name that HTTP cannot carry"))?;
            let is_login = [header::AUTHORIZATION, header::COOKIE].contains(&name);
            if headers::is_set_by_publisher(&name) || (headers::is_forbidden(&name) && !is_login) {
                return Err(wrong(format!("`header` cannot set {name}: it is made for each request")));
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

fn wrong(problem: impl Into<String>) -> PublisherError {
    PublisherError::new(NAME, problem)
}

/// Neither URL nor headers nor keys: each may be a secret.
impl fmt::Debug for HttpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBuilder")
            .field("format", &self.format)
            .field("concurrency", &self.concurrency)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("max_body_bytes", &self.max_body_bytes)
            .field("allow_http", &self.allow_http)
            .field("allow_networks", &self.networks)
            .finish_non_exhaustive()
    }
}
