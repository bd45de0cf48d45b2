//! Test outboxes on the shared servers, and helpers for them.

use posthaste::store::{Claim, Claimed, Lease, Owner, Settle, Settled, Settlement, Store as _, Verdict};
use posthaste::{Event, EventId, Outbox, Recorder, Route, Routes, StoreError, Timestamp};
use posthaste_redis::{OutboxName, RedisStore, RedisStoreBuilder, RedisWriter};
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::{HOUR, variable};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{FromRedisValue, ToRedisArgs};

/// A new outbox on a shared server, and a connection besides those of the store.
pub(crate) struct TestOutbox<C = MultiplexedConnection> {
    pub(crate) store: RedisStore,
    pub(crate) name: OutboxName,
    pub(crate) shards: u16,
    pub(crate) connection: C,
}

pub(crate) async fn on_one_server(shards: u16) -> TestOutbox {
    let name = fresh_name();
    let store = builder(&name).shards(shards).connect().await.expect("the store opens");
    TestOutbox { store, name, shards, connection: connect(&server_url()).await }
}

pub(crate) async fn on_a_cluster(shards: u16) -> TestOutbox<ClusterConnection> {
    let name = fresh_name();
    let store = cluster_builder(&name).shards(shards).connect().await.expect("the store opens");
    let client = redis::cluster::ClusterClient::new(cluster_urls()).expect("good URLs");
    let connection = client.get_async_connection().await.expect("the cluster replies");
    TestOutbox { store, name, shards, connection }
}

impl<C: ConnectionLike + Clone> TestOutbox<C> {
    /// A key of the first shard.
    pub(crate) fn key(&self, key: &str) -> String {
        key_of(&self.name, key)
    }

    /// Runs a command on a key of the first shard.
    pub(crate) async fn run<T: FromRedisValue>(&self, command: &str, key: &str, args: impl ToRedisArgs) -> T {
        let mut cmd = redis::cmd(command);
        cmd.arg(self.key(key)).arg(args);
        cmd.query_async(&mut self.connection.clone()).await.unwrap_or_else(|error| panic!("{cmd:?}: {error}"))
    }

    /// Writes an event as a program without Posthaste does, with two commands.
    pub(crate) async fn produce(&self, id: &str, body: &str, due: i64) {
        let _: u8 = self.run("HSETNX", "entries", (id, body)).await;
        let _: u8 = self.run("ZADD", "pending", ("NX", due, id)).await;
    }

    /// A Writer as in a process without an engine.
    pub(crate) fn writer(&self) -> RedisWriter {
        writer_of(&self.store)
    }

    /// The same outbox, opened as by another process.
    pub(crate) async fn elsewhere(&self) -> RedisStore {
        builder(&self.name).connect().await.expect("the store opens")
    }

    /// The server's clock, cut to milliseconds.
    pub(crate) async fn now(&self) -> Timestamp {
        let time = redis::cmd("TIME").query_async(&mut self.connection.clone()).await;
        let (secs, micros): (i64, i64) = time.expect("TIME");
        Timestamp::from_micros(secs * 1_000_000 + micros / 1000 * 1000)
    }

    /// Removes all keys of the outbox.
    pub(crate) async fn end(&self) {
        for shard in 0..self.shards {
            for key in OUTBOX_KEYS.iter().chain(&EXPIRY_KEYS).chain(&["settings"]) {
                let mut unlink = redis::cmd("UNLINK");
                unlink.arg(format!("{{{}:{shard}}}:{key}", self.name));
                let _: i64 = unlink.query_async(&mut self.connection.clone()).await.expect("UNLINK");
            }
        }
    }
}

/// For commands that take only a key.
pub(crate) const NO_ARGS: &[&str] = &[];

pub(crate) const OUTBOX_KEYS: [&str; 11] = [
    "entries", "state", "arrivals", "pending", "waiting", "done", "dead", "archived", "parked", "control",
    "audit",
];

const EXPIRY_KEYS: [&str; 6] =
    ["expiry-due", "expiry-leases", "expiry-begun", "revoked", "expired", "expired-at"];

/// The server that all tests share.
pub(crate) fn server_url() -> String {
    variable("POSTHASTE_TEST_REDIS_URL")
}

/// The nodes of the cluster that all tests share.
pub(crate) fn cluster_urls() -> Vec<String> {
    variable("POSTHASTE_TEST_REDIS_CLUSTER_URL").split(',').map(str::to_owned).collect()
}

pub(crate) fn url_of(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// A connection of the service.
pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a good URL");
    client.get_multiplexed_async_connection().await.expect("the server replies")
}

/// A name that no other test uses.
pub(crate) fn fresh_name() -> OutboxName {
    OutboxName::new(&format!("t{}", EventId::uuid_v7().as_str().replace('-', ""))).expect("a good name")
}

/// A key of the first shard.
pub(crate) fn key_of(name: &OutboxName, key: &str) -> String {
    format!("{{{name}:0}}:{key}")
}

pub(crate) fn builder(name: &OutboxName) -> RedisStoreBuilder {
    RedisStore::builder(&server_url()).expect("a good URL").name(name.clone())
}

pub(crate) fn cluster_builder(name: &OutboxName) -> RedisStoreBuilder {
    let urls = cluster_urls();
    RedisStore::cluster(urls.iter().map(String::as_str)).expect("good URLs").name(name.clone())
}

/// Opens the default outbox on a server of one test.
pub(crate) async fn open(server: &RedisServer) -> RedisStore {
    open_at(server.port()).await
}

pub(crate) async fn open_at(port: u16) -> RedisStore {
    RedisStore::connect(&url_of(port)).await.expect("it opens")
}

/// Runs a command on a server of one test.
pub(crate) async fn command<T: FromRedisValue>(
    server: &RedisServer,
    name: &str,
    args: impl ToRedisArgs,
) -> T {
    let mut cmd = redis::cmd(name);
    cmd.arg(args);
    let reply = cmd.query_async(&mut connect(&server.url()).await).await;
    reply.unwrap_or_else(|error| panic!("{cmd:?}: {error}"))
}

/// Changes a setting of a server of one test.
pub(crate) async fn config_set(server: &RedisServer, name: &str, value: impl ToRedisArgs) {
    command::<()>(server, "CONFIG", ("SET", name, value)).await;
}

/// A Writer as in a process without an engine.
pub(crate) fn writer_of(store: &RedisStore) -> RedisWriter {
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().build();
    RedisWriter::new(store, &outbox.expect("a good configuration"))
}

/// A recorder, and routes that deliver everything to it.
pub(crate) fn recorded() -> (Recorder, Routes) {
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    (recorder, routes)
}

/// An engine that delivers everything to a recorder. It polls once an hour, so only the hot path and wake-ups trigger
/// it.
pub(crate) fn engine(store: &RedisStore) -> (Outbox, Recorder) {
    let (recorder, routes) = recorded();
    let outbox = Outbox::builder(store.clone(), routes).single_node().poll_interval(HOUR);
    (outbox.start().expect("a good configuration"), recorder)
}

/// An event about a ticket.
pub(crate) fn event(event_type: &str, ticket: &str) -> Event {
    Event::builder(event_type).aggregate("Ticket", ticket).json_text("{}").build().expect("a good event")
}

/// An event that is due in an hour.
pub(crate) fn later_event() -> Event {
    Event::builder("Later").deliver_after(HOUR).json_text("1").build().expect("a good event")
}

/// An event about a ticket with a payload of this size.
pub(crate) fn of_size(ticket: &str, bytes: usize) -> Event {
    let event = Event::builder("Sized").aggregate("Ticket", ticket);
    event.json_text(format!("\"{}\"", "x".repeat(bytes - 2))).build().expect("a good event")
}

/// The owner that claims and settles in the tests.
pub(crate) fn me() -> Owner {
    Owner::from("me")
}

/// A claim of ten rows for an hour.
pub(crate) fn claim_by(owner: &Owner) -> Claim<'_> {
    Claim::new(owner, HOUR, 10)
}

pub(crate) async fn claim(store: &RedisStore) -> Result<Claimed, StoreError> {
    store.claim(&claim_by(&me())).await
}

/// Claims up to a hundred rows.
pub(crate) async fn claim_bytes(store: &RedisStore, max_bytes: usize) -> Claimed {
    let owner = me();
    let claim = claim_by(&owner).with_limit(100).with_max_bytes(max_bytes);
    store.claim(&claim).await.expect("the claim works")
}

/// Settles each row with its verdict.
pub(crate) async fn settle_each<'l>(
    store: &RedisStore,
    rows: impl IntoIterator<Item = (&'l Lease, Verdict)>,
) -> Result<Vec<Settled>, StoreError> {
    let settlement = |(lease, verdict): (&Lease, Verdict)| Settlement::new(lease.clone(), verdict);
    let settlements: Vec<Settlement> = rows.into_iter().map(settlement).collect();
    store.settle(&Settle::new(&me(), &settlements)).await
}

/// Settles rows as delivered.
pub(crate) async fn settle_done<'l>(
    store: &RedisStore,
    leases: impl IntoIterator<Item = &'l Lease>,
) -> Result<Vec<Settled>, StoreError> {
    settle_each(store, leases.into_iter().map(|lease| (lease, Verdict::Done))).await
}
