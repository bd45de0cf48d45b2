//! The AMQP connection and its channels: opened on first use, closed when the broker stops replying.

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
use crate::check_error::UNREACHABLE_ADVICE;
use crate::host_port::Address;
use crate::operator_text::one_line;
use crate::shared_connection::SharedConnection;

/// How long one host may take for the connection and the login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an orderly close may take before the socket is shut down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a request must have waited for its reply before the connection is closed; half of the publisher's
/// timeout if that is shorter. A request that was sent shortly before its deadline proves nothing about the
/// connection, and other deliveries use the same connection.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);
/// The heartbeat interval. A connection on which nothing arrives for two intervals is considered lost.
const HEARTBEAT_SECS: u16 = 10;

/// Connects to RabbitMQ and holds the connection that all deliveries share.
pub(super) struct Connector {
    settings: Arc<Settings>,
    shared: SharedConnection<AmqpConnection>,
}

impl Connector {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, shared: SharedConnection::default() }
    }

    /// Returns the connection. Opens one if there is none or if it is no longer alive.
    pub(super) async fn get(&self, deadline: Instant) -> Result<Arc<AmqpConnection>, String> {
        let late = |_| CONNECT_TIMEOUT_REASON.to_owned();
        // The deadline applies twice: a caller that waits for another caller's attempt may have less time than that
        // attempt has.
        let connect = async { timeout_at(deadline, self.connect()).await.map_err(late)? };
        timeout_at(deadline, self.shared.get(AmqpConnection::is_alive, connect)).await.map_err(late)?
    }

    /// Tries one host after the other, and returns the first connection that succeeds.
    async fn connect(&self) -> Result<AmqpConnection, String> {
        let mut problems = Vec::new();
        for host in &self.settings.hosts {
            let why = match timeout(CONNECT_TIMEOUT, AmqpConnection::open(&self.settings, host)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(why)) => why,
                Err(_) => {
                    format!("it did not complete the login within {CONNECT_TIMEOUT:?}: {UNREACHABLE_ADVICE}")
                }
            };
            problems.push(format!("{host}: {why}"));
        }
        Err(one_line(format!("no connection to RabbitMQ: {}", problems.join("; "))))
    }
}

/// One connection to RabbitMQ. It has one channel per in-flight batch: lapin assigns a delivery tag and queues the
/// message in two separate steps, so two batches on one channel could get each other's confirmations.
pub(super) struct AmqpConnection {
    /// lapin's connection. `None` only while this value is dropped.
    lapin: Option<Connection>,
    socket: Socket,
    /// How long a request may wait for its reply before the connection is closed. See `SILENCE_TIMEOUT`.
    silence_timeout: Duration,
    /// Set once a reply is overdue; the connection is then never used again.
    is_given_up: AtomicBool,
    /// Open channels in confirm mode without a message in flight. A batch takes one and gives it back when every
    /// message was confirmed.
    idle: Mutex<Vec<Channel>>,
    /// Exchanges that existed when they were last looked up on this connection. Cleared after a channel error.
    pub(super) known_exchanges: Mutex<HashSet<ShortString>>,
}

/// Reasons why no channel could be opened.
pub(super) enum NoChannel {
    /// The broker has blocked the connection because it is short of memory or of disk space.
    Blocked,
    /// The broker did not reply before the deadline.
    NoAnswer,
    NoConnection(String),
}

impl NoChannel {
    /// The text for an operator who runs a check.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Blocked => BLOCKED_REASON.to_owned(),
            Self::NoAnswer => {
                format!("RabbitMQ accepted the login, but does not reply: {UNREACHABLE_ADVICE}")
            }
            Self::NoConnection(why) => format!("{why}: {UNREACHABLE_ADVICE}"),
        }
    }

    /// The outcome of a message that was to be sent on the channel.
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
            .map_err(|error| format!("its name cannot be resolved: {error}: {UNREACHABLE_ADVICE}"))?
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
        // From here on, dropping this future shuts the socket down.
        let socket = Socket(Some(socket.into()));
        let stream = match &settings.tls {
            None => stream,
            Some(tls) => {
                let secured = stream.into_rustls(tls, &host.host).await;
                secured.map_err(|error| format!("TLS failed: {error}: {UNREACHABLE_ADVICE}"))?
            }
        };
        // lapin would open the socket itself, on a thread that cannot be stopped before it has connected.
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

    /// Whether the broker has stopped reading messages because it is short of memory or of disk space.
    fn is_blocked(&self) -> bool {
        self.lapin().is_some_and(|connection| connection.status().blocked())
    }

    /// The largest frame in bytes that the broker accepts.
    pub(super) fn largest_frame(&self) -> usize {
        let largest = self.lapin().map_or(0, |connection| connection.configuration().frame_max());
        usize::try_from(largest).unwrap_or(usize::MAX)
    }

    /// Returns a channel in confirm mode for exclusive use: an idle one, or a new one.
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
        self.reply_to(channel.confirm_select(ConfirmSelectOptions::default()), deadline).await?;
        Ok(channel)
    }

    /// Opens a new channel even if one is idle, because only a reply proves that the broker is there. Keeps the
    /// channel if the next batch would have to open one.
    pub(super) async fn warm_up(&self, deadline: Instant) -> Result<(), NoChannel> {
        let channel = self.new_channel(deadline).await?;
        let mut idle = lock(&self.idle);
        if idle.is_empty() {
            idle.push(channel);
        }
        Ok(())
    }

    /// Opens a channel for a single request, without confirm mode.
    pub(super) async fn plain_channel(&self, deadline: Instant) -> Result<Channel, NoChannel> {
        check_deadline(deadline)?;
        if self.is_blocked() {
            return Err(NoChannel::Blocked);
        }
        let gone = || NoChannel::NoConnection(CONNECTION_CLOSED_REASON.to_owned());
        self.reply_to(self.lapin().ok_or_else(gone)?.create_channel(), deadline).await
    }

    /// Takes back a channel that has no message in flight.
    pub(super) fn give_back(&self, channel: Channel) {
        if channel.status().connected() {
            lock(&self.idle).push(channel);
        }
    }

    async fn reply_to<T>(
        &self,
        request: impl Future<Output = lapin::Result<T>>,
        deadline: Instant,
    ) -> Result<T, NoChannel> {
        let sent_at = Instant::now();
        match timeout_at(deadline, request).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(NoChannel::NoConnection(connection_error(&error))),
            Err(_) => Err(self.no_answer(sent_at)),
        }
    }

    /// The error for a request that was sent at `sent_at` and got no reply before its deadline.
    pub(super) fn no_answer(&self, sent_at: Instant) -> NoChannel {
        self.give_up_if_silent(sent_at);
        NoChannel::NoAnswer
    }

    /// Closes the connection, with everything queued on it, if the reply to a request sent at `sent_at` is overdue.
    /// A blocked broker is exempt: it is expected not to reply, and another connection would be blocked too.
    pub(super) fn give_up_if_silent(&self, sent_at: Instant) {
        if sent_at.elapsed() >= self.silence_timeout && !self.is_blocked() {
            self.is_given_up.store(true, Ordering::Relaxed);
            self.socket.end();
        }
    }
}

/// Returns an error after the deadline. The connection is kept, because no request was sent that the broker could
/// have missed.
fn check_deadline(deadline: Instant) -> Result<(), NoChannel> {
    if Instant::now() < deadline { Ok(()) } else { Err(NoChannel::NoAnswer) }
}

/// Closes the connection with AMQP's handshake if there is a runtime to run it on. The socket is shut down in any
/// case.
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

/// The socket of a connection, shut down on drop. lapin's I/O thread runs until then.
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

/// Turns tracing off on lapin's I/O thread: lapin logs each returned message with its payload and headers.
fn disable_logging_on_this_thread() {
    let nothing = tracing::dispatcher::set_default(&tracing::Dispatch::none());
    // The guard is leaked so that the setting lasts until the thread ends. Only lapin's code runs on this thread.
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

/// The text for a login that the broker refused.
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
    "RabbitMQ accepts no messages at the moment: it is short of memory or of disk space";
const CONNECT_TIMEOUT_REASON: &str =
    "no RabbitMQ host completed the login before the timeout: check host, port and TLS, and that it runs";
const CONNECTION_CLOSED_REASON: &str = "the connection to RabbitMQ is closed";

/// The text for a connection that was lost.
pub(super) fn connection_error(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => one_line(format!("RabbitMQ closed the connection: {refusal}")),
        ErrorKind::InvalidConnectionState(_) | ErrorKind::InvalidChannelState(..) => {
            CONNECTION_CLOSED_REASON.to_owned()
        }
        _ => one_line(format!("the connection to RabbitMQ broke: {error}")),
    }
}

/// The broker's own error text, in one line.
pub(super) fn broker_text(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => one_line(refusal.to_string()),
        _ => one_line(error.to_string()),
    }
}

/// Locks a mutex, also after a panic: no critical section here leaves its data half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
