//! One AMQP connection with its channels: made when it is needed, and given up when it does not answer.

use std::collections::HashSet;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::options::ConfirmSelectOptions;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::tcp::AsyncTcpStream;
use lapin::types::ShortString;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind};
use posthaste::Outcome;
use tokio::time::{Instant, timeout, timeout_at};

use super::settings::Settings;
use crate::address::Address;
use crate::one_line::one_line;
use crate::shared_connection::SharedConnection;
use crate::unreached::UNREACHABLE_ADVICE;

/// How long one host may take to let us in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a goodbye may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection must have been silent to be ended, if the timeout is not shorter still: a question
/// that was asked when the time was nearly up says nothing about a connection that others use too.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection over which nothing came for twice as long is lost.
const HEARTBEAT_SECS: u16 = 10;

/// Connects to RabbitMQ, and keeps the connection that all deliveries share.
pub(super) struct Connector {
    settings: Arc<Settings>,
    shared: SharedConnection<AmqpConnection>,
}

impl Connector {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, shared: SharedConnection::default() }
    }

    /// The connection, made if there is none.
    pub(super) async fn get(&self, deadline: Instant) -> Result<Arc<AmqpConnection>, String> {
        let late = |_| CONNECT_TIMEOUT_REASON.to_owned();
        // Twice: who waits for another's attempt may have less time than that one.
        let connect = async { timeout_at(deadline, self.connect()).await.map_err(late)? };
        timeout_at(deadline, self.shared.get(AmqpConnection::is_alive, connect)).await.map_err(late)?
    }

    /// Asks one host after the other.
    async fn connect(&self) -> Result<AmqpConnection, String> {
        let mut problems = Vec::new();
        for host in &self.settings.hosts {
            let why = match timeout(CONNECT_TIMEOUT, AmqpConnection::open(&self.settings, host)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(why)) => why,
                Err(_) => format!("it did not let us in within {CONNECT_TIMEOUT:?}: {UNREACHABLE_ADVICE}"),
            };
            problems.push(format!("{host}: {why}"));
        }
        Err(one_line(format!("no connection to RabbitMQ: {}", problems.join("; "))))
    }
}

/// One connection to RabbitMQ. It has as many channels as there are batches on the way at once: lapin numbers messages and
/// queues them in two steps, so that two batches on one channel could get each other's confirmations.
pub(super) struct AmqpConnection {
    /// lapin's own connection, there until this one is dropped.
    lapin: Option<Connection>,
    socket: Socket,
    /// How long it may leave a question without an answer.
    silence_timeout: Duration,
    is_given_up: AtomicBool,
    idle: Mutex<Vec<Channel>>,
    /// Exchanges that were there when we looked.
    pub(super) known_exchanges: Mutex<HashSet<ShortString>>,
}

/// Why there is no channel.
pub(super) enum NoChannel {
    Blocked,
    NoAnswer,
    NoConnection(String),
}

impl NoChannel {
    /// For operators who asked whether the broker is there.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Blocked => BLOCKED_REASON.to_owned(),
            Self::NoAnswer => format!("RabbitMQ let us in, but does not answer: {UNREACHABLE_ADVICE}"),
            Self::NoConnection(why) => format!("{why}: {UNREACHABLE_ADVICE}"),
        }
    }

    /// What that means for a message.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Blocked => Outcome::no_answer(BLOCKED_REASON),
            Self::NoAnswer => Outcome::no_answer(NO_ANSWER_REASON),
            Self::NoConnection(why) => Outcome::no_connection(why.clone()),
        }
    }
}

impl AmqpConnection {
    async fn open(settings: &Settings, host: &Address) -> Result<Self, String> {
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        let addresses = tokio::net::lookup_host((host.host.as_str(), host.port)).await;
        let addresses: Vec<_> = addresses
            .map_err(|error| format!("its name is not known: {error}: {UNREACHABLE_ADVICE}"))?
            .collect();
        let stream = AsyncTcpStream::connect(&runtime, addresses).await;
        let stream = stream.map_err(|error| format!("{error}: {UNREACHABLE_ADVICE}"))?;
        let socket = match &stream {
            AsyncTcpStream::Plain(tcp) => {
                let _ = tcp.get_ref().set_nodelay(true);
                tcp.get_ref().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?
            }
            _ => return Err("a new socket speaks TLS already".to_owned()),
        };
        // From here on, whoever drops this future ends the connection.
        let socket = Socket(Some(socket.into()));
        let stream = match &settings.tls {
            None => stream,
            Some(tls) => {
                let secured = stream.into_rustls(tls, &host.host).await;
                secured.map_err(|error| format!("TLS failed: {error}: {UNREACHABLE_ADVICE}"))?
            }
        };
        // lapin would connect by itself, on a thread that nobody can end before it has.
        let stream = Mutex::new(Some(stream));
        let connect = async move |_, _| {
            disable_logging_on_this_thread();
            lock(&stream).take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected).into())
        };
        let properties = ConnectionProperties::default().with_connection_name("posthaste".into());
        let connection = Connection::connector(uri(settings, host), runtime, connect, properties).await;
        Ok(Self {
            lapin: Some(connection.map_err(|error| login_error(&error))?),
            socket,
            silence_timeout: SILENCE_TIMEOUT.min(settings.common.timeout / 2),
            is_given_up: AtomicBool::new(false),
            idle: Mutex::default(),
            known_exchanges: Mutex::default(),
        })
    }

    fn lapin(&self) -> Option<&Connection> {
        self.lapin.as_ref()
    }

    pub(super) fn is_alive(&self) -> bool {
        let is_connected = self.lapin().is_some_and(|connection| connection.status().connected());
        is_connected && !self.is_given_up.load(Ordering::Relaxed)
    }

    /// Whether the broker takes nothing at the moment, because it is short of memory or of disk.
    fn is_blocked(&self) -> bool {
        self.lapin().is_some_and(|connection| connection.status().blocked())
    }

    /// The most bytes of one frame.
    pub(super) fn largest_frame(&self) -> usize {
        let largest = self.lapin().map_or(0, |connection| connection.configuration().frame_max());
        usize::try_from(largest).unwrap_or(usize::MAX)
    }

    /// A channel that confirms, and that nobody else uses.
    pub(super) async fn channel(&self, deadline: Instant) -> Result<Channel, NoChannel> {
        check_deadline(deadline)?;
        let idle = || lock(&self.idle).pop();
        while let Some(channel) = idle() {
            if channel.status().connected() && !self.is_blocked() {
                return Ok(channel);
            }
        }
        self.new_channel(deadline).await
    }

    async fn new_channel(&self, deadline: Instant) -> Result<Channel, NoChannel> {
        let channel = self.plain_channel(deadline).await?;
        self.ask(channel.confirm_select(ConfirmSelectOptions::default()), deadline).await?;
        Ok(channel)
    }

    /// Opens a channel even if there is one: only an answer says that the broker is there. It is kept if the
    /// next batch would have to open one.
    pub(super) async fn warm_up(&self, deadline: Instant) -> Result<(), NoChannel> {
        let channel = self.new_channel(deadline).await?;
        let mut idle = lock(&self.idle);
        if idle.is_empty() {
            idle.push(channel);
        }
        Ok(())
    }

    /// A channel for a question.
    pub(super) async fn plain_channel(&self, deadline: Instant) -> Result<Channel, NoChannel> {
        check_deadline(deadline)?;
        if self.is_blocked() {
            return Err(NoChannel::Blocked);
        }
        let gone = || NoChannel::NoConnection(CONNECTION_CLOSED_REASON.to_owned());
        self.ask(self.lapin().ok_or_else(gone)?.create_channel(), deadline).await
    }

    /// Takes a channel back on which nothing is on the way.
    pub(super) fn give_back(&self, channel: Channel) {
        if channel.status().connected() {
            lock(&self.idle).push(channel);
        }
    }

    async fn ask<T>(
        &self,
        question: impl Future<Output = lapin::Result<T>>,
        deadline: Instant,
    ) -> Result<T, NoChannel> {
        let asked = Instant::now();
        match timeout_at(deadline, question).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(NoChannel::NoConnection(connection_error(&error))),
            Err(_) => Err(self.no_answer(asked)),
        }
    }

    /// Nothing came in time to what was asked then.
    pub(super) fn no_answer(&self, asked: Instant) -> NoChannel {
        self.give_up_if_silent(asked);
        NoChannel::NoAnswer
    }

    /// Ends a connection that does not answer what it was asked then, with all that is queued for it. While the
    /// broker is blocked its silence is no surprise, and another connection would have no better luck.
    pub(super) fn give_up_if_silent(&self, asked: Instant) {
        if asked.elapsed() >= self.silence_timeout && !self.is_blocked() {
            self.is_given_up.store(true, Ordering::Relaxed);
            self.socket.end();
        }
    }
}

/// An error after the deadline: what is asked too late gets no answer, and that is not the broker's fault.
fn check_deadline(deadline: Instant) -> Result<(), NoChannel> {
    if Instant::now() < deadline { Ok(()) } else { Err(NoChannel::NoAnswer) }
}

/// Says goodbye if there is a runtime to do it on, and is gone in any case.
impl Drop for AmqpConnection {
    fn drop(&mut self) {
        let Some(connection) = self.lapin.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_given_up.load(Ordering::Relaxed) || !connection.status().connected() {
            return;
        }
        let (socket, idle) = (self.socket.take(), std::mem::take(&mut *lock(&self.idle)));
        runtime.spawn(async move {
            drop(idle);
            let _ = timeout(CLOSE_TIMEOUT, connection.close(200, "OK".into())).await;
            drop(socket);
        });
    }
}

/// The socket of a connection. lapin's thread lives as long as it, so it ends when this is dropped.
struct Socket(Option<TcpStream>);

impl Socket {
    fn end(&self) {
        if let Some(socket) = &self.0 {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.end();
    }
}

/// lapin's thread logs each message that comes back, with its payload and headers.
fn disable_logging_on_this_thread() {
    let nothing = tracing::dispatcher::set_default(&tracing::Dispatch::none());
    // For as long as the thread lives, which is ours alone.
    std::mem::forget(nothing);
}

fn uri(settings: &Settings, host: &Address) -> AMQPUri {
    let login = &settings.login;
    AMQPUri {
        scheme: if settings.tls.is_some() { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: login.user.clone(), password: login.password.clone() },
            host: host.host.clone(),
            port: host.port,
        },
        vhost: settings.vhost.clone(),
        query: AMQPQueryString { heartbeat: Some(HEARTBEAT_SECS), ..AMQPQueryString::default() },
    }
}

/// Why a broker that answered did not let us in.
fn login_error(error: &lapin::Error) -> String {
    let ErrorKind::ProtocolError(refusal) = error.kind() else { return error.to_string() };
    match refusal.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
            "the broker refused the login of this user: check the user and the password".to_owned()
        }
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
            format!("the broker refused the vhost: create it, or check its name: {}", refusal.get_message())
        }
        _ => refusal.to_string(),
    }
}

pub(super) const NO_ANSWER_REASON: &str = "RabbitMQ did not confirm the message in time";
const BLOCKED_REASON: &str =
    "RabbitMQ takes no messages at the moment: it is short of memory or of disk space";
const CONNECT_TIMEOUT_REASON: &str =
    "no host of RabbitMQ let us in before the timeout ended: check host, port and TLS, and that it runs";
const CONNECTION_CLOSED_REASON: &str = "the connection to RabbitMQ is closed";

/// The text for a connection that is gone.
pub(super) fn connection_error(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => one_line(format!("RabbitMQ closed the connection: {refusal}")),
        ErrorKind::InvalidConnectionState(_) | ErrorKind::InvalidChannelState(..) => {
            CONNECTION_CLOSED_REASON.to_owned()
        }
        _ => one_line(format!("the connection to RabbitMQ broke: {error}")),
    }
}

/// The broker's own words.
pub(super) fn broker_text(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => one_line(refusal.to_string()),
        _ => one_line(error.to_string()),
    }
}

/// Nothing that these guard is left half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
