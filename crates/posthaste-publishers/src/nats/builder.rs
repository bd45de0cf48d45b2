//! The settings of a publisher: where NATS is, who we are there, and what goes where.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;

use super::message::check_subject;
use super::settings::{Login, Settings};
use super::{BROKER, NatsPublisher};
use crate::error::PublisherError;
use crate::format::Format;
use crate::hidden::Hidden;
use crate::settings::{CommonSettings, DEFAULT_TIMEOUT};
use crate::url::PublisherUrl;

const PORT: u16 = 4222;

/// Builds a [`NatsPublisher`].
#[derive(Clone, Debug)]
pub struct NatsBuilder {
    common: CommonSettings,
    hosts: Vec<String>,
    subject: Option<String>,
    login: Hidden<Login>,
    stream: Option<String>,
    core: bool,
}

impl NatsBuilder {
    pub(super) fn new(hosts: Vec<String>) -> Self {
        let common = CommonSettings::new(DEFAULT_TIMEOUT, None);
        Self { common, hosts, subject: None, login: Hidden(Login::Anonymous), stream: None, core: false }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(BROKER.name, url)?;
        let mut builder = Self::new(std::mem::take(&mut url.hosts));
        builder.common.take(&BROKER, &mut url)?;
        builder.subject = Some(std::mem::take(&mut url.path)).filter(|subject| !subject.is_empty());
        builder.login = Hidden(login(&mut url)?);
        builder.stream = url.take("stream");
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
        self.login = Hidden(Login::User(user.into(), password.into()));
        self
    }

    /// By a token. Default: nobody.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.login = Hidden(Login::Token(token.into()));
        self
    }

    /// By a credentials file, as `nsc` writes it: a JWT and its seed. It is read with each connection.
    /// Default: nobody.
    pub fn credentials_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Hidden(Login::Credentials(path.into()));
        self
    }

    /// By the seed of a user's nkey, which is alone in this file. It is read with each connection.
    /// Default: nobody.
    pub fn nkey_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Hidden(Login::Nkey(path.into()));
        self
    }

    /// Whether a server must speak TLS. One that demands it gets it in any case. Default: no.
    pub fn tls(mut self, required: bool) -> Self {
        self.common.tls = required;
        self
    }

    /// The certificate authority to trust, as PEM, in place of those that browsers trust. It demands
    /// [`tls`](Self::tls), so that nobody takes a connection in the clear for one that is checked.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.common.root_certificate = Some(Hidden(pem.into()));
        self
    }

    /// The stream that has to take the events: where another one does, that is an error. Default: any.
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.stream = Some(name.into());
        self
    }

    /// What a message looks like. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.common.format = format;
        self
    }

    /// How long a call may take in all, the connection included, until what is left of it counts as
    /// unanswered. Keep it below the route's timeout: where the engine ends the call first, it learns nothing
    /// of what was stored. Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = timeout;
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
        self.common.check(&BROKER)?;
        if self.core && self.stream.is_some() {
            return Err(BROKER.wrong("without acknowledgement there is no stream to name: leave one out"));
        }
        let is_token = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '.' | '*' | '>'))
        };
        if self.stream.as_deref().is_some_and(|name| !is_token(name)) {
            return Err(BROKER.wrong("the stream's name has a character that no stream has"));
        }
        // Read once now, so that a mistake is found when the publisher is built.
        self.login.options().map_err(|problem| BROKER.wrong(problem))?;
        let servers = BROKER.addresses(&self.hosts, PORT)?;
        let server_list = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let subject = self.subject.as_deref().or(self.common.format.default_target());
        let subject = subject.ok_or_else(|| BROKER.wrong("write the subject: nats://host:4222/subject"))?;
        Ok(NatsPublisher::new(Settings {
            servers: self.urls(&server_list)?,
            server_list,
            tls: Hidden(self.common.tls_client().map_err(|problem| BROKER.wrong(problem))?),
            subject: BROKER.template("subject", subject, check_subject)?,
            login: self.login,
            stream: self.stream,
            core: self.core,
            common: self.common,
        }))
    }

    /// The servers as the client library reads them.
    fn urls(&self, server_list: &str) -> Result<Vec<ServerAddr>, PublisherError> {
        let scheme = if self.common.tls { BROKER.tls_scheme } else { BROKER.scheme };
        let url = |server: &str| format!("{scheme}://{server}").parse();
        let urls: Result<_, std::io::Error> = server_list.split(',').map(url).collect();
        urls.map_err(|_| BROKER.wrong("the client library does not take a host of these"))
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
