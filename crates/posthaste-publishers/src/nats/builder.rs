//! Builder: reads the settings of a NATS publisher from a URL or from setters, and checks them.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;

use super::message::check_subject;
use super::settings::{Login, Settings};
use super::{BROKER, NatsPublisher};
use crate::error::PublisherError;
use crate::format::Format;
use crate::redacted::Redacted;
use crate::settings::{CommonSettings, DEFAULT_TIMEOUT};
use crate::url::PublisherUrl;

const PORT: u16 = 4222;

/// Settings of a [`NatsPublisher`]. Create one with [`NatsPublisher::builder`].
#[derive(Clone, Debug)]
pub struct NatsBuilder {
    common: CommonSettings,
    hosts: Vec<String>,
    subject: Option<String>,
    login: Redacted<Login>,
    stream: Option<String>,
    core: bool,
}

impl NatsBuilder {
    pub(super) fn new(hosts: Vec<String>) -> Self {
        let common = CommonSettings::new(DEFAULT_TIMEOUT, None);
        Self { common, hosts, subject: None, login: Redacted(Login::Anonymous), stream: None, core: false }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(BROKER.name, url)?;
        let mut builder = Self::new(std::mem::take(&mut url.hosts));
        builder.common.take(&BROKER, &mut url)?;
        builder.subject = Some(std::mem::take(&mut url.path)).filter(|subject| !subject.is_empty());
        builder.login = Redacted(login(&mut url)?);
        builder.stream = url.take("stream");
        builder.core = url.take_as("core", "true or false")?.unwrap_or(false);
        url.finish()?;
        Ok(builder)
    }

    /// The subject of events that have no topic: a name, or a template with placeholders such as `{event_type}`.
    /// Required, except with [`Format::Debezium`], whose default is `outbox.event.{aggregate_type}`.
    pub fn subject(mut self, template: impl Into<String>) -> Self {
        self.subject = Some(template.into());
        self
    }

    /// Logs in with user and password. The last login that is set is used. Default: no login.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Redacted(Login::User(user.into(), password.into()));
        self
    }

    /// Logs in with a token. Default: no login.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.login = Redacted(Login::Token(token.into()));
        self
    }

    /// Logs in with a credentials file of `nsc`: a JWT and its seed. The file is read for each connection. Default:
    /// no login.
    pub fn credentials_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Redacted(Login::Credentials(path.into()));
        self
    }

    /// Logs in with the seed of a user's nkey. The file contains only the seed and is read for each connection.
    /// Default: no login.
    pub fn nkey_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Redacted(Login::Nkey(path.into()));
        self
    }

    /// Whether connections must use TLS. If the server requires TLS, it is used in any case. Default: `false`.
    pub fn tls(mut self, required: bool) -> Self {
        self.common.tls = required;
        self
    }

    /// Trusts these certificate authorities (PEM) instead of the public ones. Needs [`tls`](Self::tls), so that a
    /// plain connection is not mistaken for a verified one. Default: the authorities that browsers trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.common.root_certificate = Some(Redacted(pem.into()));
        self
    }

    /// The stream that must store the events. If another stream does, the event fails. Default: any stream.
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.stream = Some(name.into());
        self
    }

    /// The message format. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.common.format = format;
        self
    }

    /// How long a call may take, including the time to connect. Events without an acknowledgement by then are
    /// unreachable. Keep it below the route's timeout, which is 10 s by default: when the route ends a call, the
    /// outcomes of stored events are lost. Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = timeout;
        self
    }

    /// Publishes with core NATS, which acknowledges nothing, instead of JetStream. An event counts as delivered once it
    /// is written to the connection. It is lost if the server or the network fails at that moment, or if there is no
    /// subscriber. Default: off.
    pub fn without_acknowledgement(mut self) -> Self {
        self.core = true;
        self
    }

    /// Checks every setting, including files, and returns the publisher, which connects on first use.
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the first wrong setting and how to write it.
    pub fn build(self) -> Result<NatsPublisher, PublisherError> {
        self.common.check(&BROKER)?;
        if self.core && self.stream.is_some() {
            return Err(BROKER.wrong("core NATS has no streams: set either core or stream"));
        }
        let is_token = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '.' | '*' | '>'))
        };
        if self.stream.as_deref().is_some_and(|name| !is_token(name)) {
            return Err(BROKER.wrong("the stream's name contains a character that NATS does not allow in it"));
        }
        // The files are read here once, so that mistakes are found when the publisher is built.
        self.login.options().map_err(|problem| BROKER.wrong(problem))?;
        let servers = BROKER.addresses(&self.hosts, PORT)?;
        let server_list = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let subject = self.subject.as_deref().or(self.common.format.default_target());
        let subject =
            subject.ok_or_else(|| BROKER.wrong("a subject is missing: write nats://host:4222/subject"))?;
        Ok(NatsPublisher::new(Settings {
            servers: self.urls(&server_list)?,
            server_list,
            tls: Redacted(self.common.tls_client().map_err(|problem| BROKER.wrong(problem))?),
            subject: BROKER.template("subject", subject, check_subject)?,
            login: self.login,
            stream: self.stream,
            core: self.core,
            common: self.common,
        }))
    }

    /// The server addresses in the client library's type.
    fn urls(&self, server_list: &str) -> Result<Vec<ServerAddr>, PublisherError> {
        let scheme = if self.common.tls { BROKER.tls_scheme } else { BROKER.scheme };
        let url = |server: &str| format!("{scheme}://{server}").parse();
        let urls: Result<_, std::io::Error> = server_list.split(',').map(url).collect();
        urls.map_err(|_| BROKER.wrong("the client library refuses one of the hosts"))
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
        return Err(url.wrong("there is more than one login: keep one of user, token, creds and nkey"));
    }
    Ok(logins.pop().unwrap_or(Login::Anonymous))
}
