//! The settings of a publisher: where NATS is, who we are there, and what goes where.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;

use super::message::check_subject;
use super::settings::{Login, Settings, read};
use super::{NAME, NatsPublisher};
use crate::error::PublisherError;
use crate::format::Format;
use crate::template::Template;
use crate::tls;
use crate::url::PublisherUrl;

/// Shorter than the engine's: where that ends a call, what the server has answered so far is lost.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(9);

/// Builds a [`NatsPublisher`].
#[derive(Clone)]
pub struct NatsBuilder {
    hosts: Vec<String>,
    tls: bool,
    subject: Option<String>,
    login: Login,
    authorities: Option<Vec<u8>>,
    authorities_file: Option<PathBuf>,
    stream: Option<String>,
    format: Format,
    timeout: Duration,
    core: bool,
}

impl NatsBuilder {
    pub(super) fn new(hosts: Vec<String>) -> Self {
        Self {
            hosts,
            tls: false,
            subject: None,
            login: Login::Anonymous,
            authorities: None,
            authorities_file: None,
            stream: None,
            format: Format::default(),
            timeout: DEFAULT_TIMEOUT,
            core: false,
        }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(NAME, url)?;
        let mut builder = Self::new(std::mem::take(&mut url.hosts));
        builder.tls = match url.scheme.as_str() {
            "nats" => false,
            "tls" => true,
            _ => return Err(url.wrong("write nats://host:4222/subject, or tls://… for TLS")),
        };
        builder.subject = Some(std::mem::take(&mut url.path)).filter(|subject| !subject.is_empty());
        builder.login = login(&mut url)?;
        builder.authorities_file = url.take("ca").map(PathBuf::from);
        builder.stream = url.take("stream");
        builder.format = url.take_format()?.unwrap_or_default();
        let seconds = url.take_as("timeout", "a number of seconds")?;
        builder.timeout = seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        builder.core = url.take_as("core", "true or false")?.unwrap_or(false);
        url.finish()?;
        Ok(builder)
    }

    /// The subject of events that name no topic: a text with places such as `{event_type}`. Default: none,
    /// but `outbox.event.{aggregate_type}` with [`Format::Debezium`].
    pub fn subject(mut self, template: impl Into<String>) -> Self {
        self.subject = Some(template.into());
        self
    }

    /// By user and password. Default: nobody.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Login::User(user.into(), password.into());
        self
    }

    /// By a token. Default: nobody.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.login = Login::Token(token.into());
        self
    }

    /// By a credentials file, as `nsc` writes it: a JWT and its seed. It is read with each connection.
    /// Default: nobody.
    pub fn credentials_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Login::Credentials(path.into());
        self
    }

    /// By the seed of a user's nkey, which is alone in this file. It is read with each connection.
    /// Default: nobody.
    pub fn nkey_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Login::Nkey(path.into());
        self
    }

    /// Whether a server must speak TLS. One that demands it gets it in any case. Default: no.
    pub fn tls(mut self, required: bool) -> Self {
        self.tls = required;
        self
    }

    /// The certificate authority to trust, as PEM, in place of those that browsers trust. It demands
    /// [`tls`](Self::tls), so that nobody takes a connection in the clear for one that is checked.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// The stream that has to take the events: where another one does, that is an error. Default: any.
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.stream = Some(name.into());
        self
    }

    /// What a message looks like. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// How long a call may take in all, the connection included, until what is left of it counts as
    /// unanswered. Keep it below the route's timeout: where the engine ends the call first, it learns nothing
    /// of what was stored. Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Publishes without JetStream. Nobody acknowledges an event then: it counts as delivered when it was
    /// written to the connection, and is lost if the server or the network fails at that moment, or if nobody
    /// listens. Default: no.
    pub fn without_acknowledgement(mut self) -> Self {
        self.core = true;
        self
    }

    /// Checks the settings. Nothing is connected yet.
    pub fn build(self) -> Result<NatsPublisher, PublisherError> {
        let wrong = |problem: String| PublisherError::new(NAME, problem);
        if self.timeout.is_zero() {
            return Err(wrong("the timeout must be longer than nothing".to_owned()));
        }
        if self.core && self.stream.is_some() {
            return Err(wrong(
                "without acknowledgement there is no stream to name: leave one out".to_owned(),
            ));
        }
        let is_token = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '.' | '*' | '>'))
        };
        if self.stream.as_deref().is_some_and(|name| !is_token(name)) {
            return Err(wrong("the stream's name has a character that no stream has".to_owned()));
        }
        if !self.tls && (self.authorities.is_some() || self.authorities_file.is_some()) {
            return Err(wrong(
                "a root certificate needs TLS: write tls://host:4222, or tls(true) in the builder".to_owned(),
            ));
        }
        // Read once now, so that a mistake is found when the publisher is built.
        self.login.options().map_err(wrong)?;
        let authorities = match (self.authorities, &self.authorities_file) {
            (Some(pem), _) => Some(pem),
            (None, Some(path)) => Some(read(path, "the root certificate").map_err(wrong)?.into_bytes()),
            (None, None) => None,
        };
        Ok(NatsPublisher::new(Settings {
            servers: servers(&self.hosts, self.tls)?,
            tls: tls::client_config(authorities.as_deref()).map_err(wrong)?,
            login: self.login,
            subject: subject(self.subject.as_deref(), self.format)?,
            stream: self.stream,
            format: self.format,
            timeout: self.timeout,
            core: self.core,
        }))
    }
}

fn login(url: &mut PublisherUrl) -> Result<Login, PublisherError> {
    let mut logins = Vec::new();
    if let Some(user) = url.user.take() {
        logins.push(Login::User(user, url.password.take().unwrap_or_default()));
    }
    logins.extend(url.take("token").map(Login::Token));
    logins.extend(url.take("creds").map(|path| Login::Credentials(path.into())));
    logins.extend(url.take("nkey").map(|path| Login::Nkey(path.into())));
    if logins.len() > 1 {
        return Err(url.wrong("there is more than one login: leave one of user, token, creds and nkey"));
    }
    Ok(logins.pop().unwrap_or(Login::Anonymous))
}

fn servers(hosts: &[String], tls: bool) -> Result<Vec<ServerAddr>, PublisherError> {
    let scheme = if tls { "tls" } else { "nats" };
    let wrong = || PublisherError::new(NAME, "write each server as host:port or host");
    if hosts.is_empty() {
        return Err(wrong());
    }
    hosts
        .iter()
        .map(|host| {
            // Whatever else a URL has would be taken for a part of it.
            let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#']);
            let server = is_host.then(|| format!("{scheme}://{host}").parse().ok()).flatten();
            server.ok_or_else(wrong)
        })
        .collect()
}

fn subject(subject: Option<&str>, format: Format) -> Result<Template, PublisherError> {
    let Some(subject) = subject.or(format.default_target()) else {
        return Err(PublisherError::new(NAME, "write the subject: nats://host:4222/subject"));
    };
    let template: Template = subject
        .parse()
        .map_err(|error| PublisherError::new(NAME, format!("the subject cannot be read: {error}")))?;
    if let Some(text) = template.as_text() {
        check_subject(text).map_err(|unsendable| PublisherError::new(NAME, unsendable.to_string()))?;
    }
    Ok(template)
}

impl fmt::Debug for NatsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBuilder").field("subject", &self.subject).finish_non_exhaustive()
    }
}
