//! Helpers: NATS servers and streams.

use async_nats::jetstream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use posthaste::conformance::destination::Received;
use posthaste_testkit::process::{free_port, program};
use posthaste_testkit::server::{OwnServer, wait_for_server};
use posthaste_testkit::variable;

use super::shared;

/// A private server, which keeps its messages when it is killed.
pub(super) struct NatsServer {
    pub(super) server: OwnServer,
}

impl NatsServer {
    /// A server with these additional settings, not started yet.
    pub(super) fn new(settings: &str) -> Self {
        let settings = settings.to_owned();
        let server = OwnServer::new(move |dir, port| {
            let text = format!(
                "listen: 127.0.0.1:{port}\nmax_payload: 8MB\njetstream {{ store_dir: {:?} }}\n{settings}\n",
                dir.join("data")
            );
            let file = dir.join("nats.conf");
            std::fs::write(&file, text).expect("a file of settings");
            let mut command = program(variable("POSTHASTE_TEST_NATS_BIN"));
            command.arg("-c").arg(file);
            command
        });
        Self { server }
    }

    /// A running server with these additional settings.
    pub(super) async fn started(settings: &str) -> Self {
        let mut server = Self::new(settings);
        server.server.listen().await;
        server
    }

    pub(super) fn url(&self) -> String {
        format!("nats://{}", self.host())
    }

    /// The URL with this login, `user:password` or a token.
    pub(super) fn url_of(&self, login: &str) -> String {
        format!("nats://{login}@{}", self.host())
    }

    pub(super) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }
}

/// A stream that stores the subjects below its name.
pub(super) struct Stream {
    url: String,
    pub(super) name: String,
}

impl Stream {
    pub(super) fn new(url: impl Into<String>, name: &str) -> Self {
        Self { url: url.into(), name: name.to_owned() }
    }

    /// A stream with a unique name on the shared server.
    pub(super) async fn shared() -> Self {
        Self::shared_with(|_| {}).await
    }

    pub(super) async fn shared_with(set: impl Fn(&mut jetstream::stream::Config)) -> Self {
        let stream = Self::new(shared(), &format!("t{}-{}", std::process::id(), free_port()));
        stream.create_with(set).await;
        stream
    }

    /// The URL of a publisher to this subject below the stream's name.
    pub(super) fn subject(&self, name: &str) -> String {
        format!("{}/{}.{name}", self.url, self.name)
    }

    async fn jetstream(&self) -> jetstream::Context {
        // The library does not read the login from a URL.
        let (login, host) =
            self.url.trim_start_matches("nats://").rsplit_once('@').unwrap_or(("", &self.url));
        let options = match login.split_once(':') {
            Some((user, password)) => {
                async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
            }
            None if login.is_empty() => async_nats::ConnectOptions::new(),
            None => async_nats::ConnectOptions::with_token(login.to_owned()),
        };
        jetstream::new(options.connect(host).await.expect("a connection"))
    }

    pub(super) async fn create(&self) {
        self.create_with(|_| {}).await;
    }

    /// Creates the stream unless it exists.
    pub(super) async fn create_with(&self, set: impl Fn(&mut jetstream::stream::Config)) {
        self.try_create_with(set).await.expect("a stream");
    }

    /// Fails while a cluster has no leader.
    pub(super) async fn try_create_with(
        &self,
        set: impl Fn(&mut jetstream::stream::Config),
    ) -> Result<(), jetstream::context::CreateStreamError> {
        let subjects = vec![format!("{}.>", self.name)];
        let mut config =
            jetstream::stream::Config { name: self.name.clone(), subjects, ..Default::default() };
        set(&mut config);
        self.jetstream().await.get_or_create_stream(config).await.map(drop)
    }

    pub(super) async fn delete(&self) {
        let _ = self.jetstream().await.delete_stream(&self.name).await;
    }

    /// Deletes all messages.
    pub(super) async fn purge(&self) {
        let stream = self.jetstream().await.get_stream(&self.name).await.expect("a stream");
        stream.purge().await.expect("it is empty");
    }

    /// All stored messages, once there are at least `n`.
    pub(super) async fn received(&self, n: usize) -> Vec<Received> {
        let stream = self.jetstream().await.get_stream(&self.name).await.expect("a stream");
        wait_for_server("the stream has stored the messages", async || {
            stream.get_info().await.is_ok_and(|info| info.state.messages >= n as u64)
        })
        .await;
        let last = stream.get_info().await.expect("infos").state.last_sequence;
        let messages = futures_util::stream::iter(1..=last).map(|at| stream.get_raw_message(at)).buffered(64);
        let messages: Vec<_> = messages.try_collect().await.expect("messages");
        messages.into_iter().map(received).collect()
    }
}

fn received(message: jetstream::message::StreamMessage) -> Received {
    let all = message.headers.iter();
    let headers: std::collections::BTreeMap<String, String> = all
        .map(|(name, values)| {
            (name.to_string(), values.first().map(|value| value.as_str().to_owned()).unwrap_or_default())
        })
        .collect();
    let of = |name: &str| headers.get(name).cloned();
    Received::new(of("outbox-event-id").expect("an id"), message.payload)
        .with_key(of("outbox-aggregate-id"))
        .with_headers(headers.into_iter().collect())
}
