//! What is found wrong with a Redis server, each by a server of the test's own that has it.

use posthaste::Admin as _;
use posthaste::admin::{Finding, Severity, Tolerance};
use posthaste_redis::RedisStore;
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::within_timeout;

use crate::support::{self, engine, event};

async fn store_on(server: &RedisServer) -> RedisStore {
    RedisStore::builder(&server.url()).expect("a good URL").connect().await.expect("the store opens")
}

async fn diagnosed(store: &RedisStore, tolerance: Tolerance) -> Vec<Finding> {
    store.diagnose(&tolerance).await.expect("a diagnosis")
}

async fn set(server: &RedisServer, name: &str, value: &str) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg(name).arg(value);
    let _: () = set.query_async(&mut support::connect(&server.url()).await).await.expect("CONFIG SET");
}

/// The only finding, which must have this code and say all these words.
#[track_caller]
fn assert_only(findings: &[Finding], code: &str, severity: Severity, words: &[&str]) {
    assert_eq!(findings.len(), 1, "{findings:?}");
    let finding = &findings[0];
    assert_eq!((finding.code, finding.severity), (code, severity), "{finding:?}");
    for word in words {
        assert!(finding.what.contains(word) || finding.advice.contains(word), "no {word:?}: {finding:?}");
    }
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn healthy_outbox_has_no_findings() {
    let server = RedisServer::durable(&[]).started().await;
    let store = store_on(&server).await;
    assert_eq!(diagnosed(&store, Tolerance::default()).await, []);
    let (outbox, recorder) = engine(&store);
    store.writer(&outbox).write(event("TicketMinted", "17")).await.expect("it is written");
    within_timeout("it is delivered", recorder.wait_for(1)).await;
    within_timeout("the engine is idle", outbox.idle()).await.expect("the store answers");
    assert_eq!(diagnosed(&store, Tolerance::default()).await, []);
    outbox.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_forgets_or_evicts_is_found() {
    let server = RedisServer::new(&["--appendonly", "no"]).started().await;
    let store = store_on(&server).await;
    let words = ["the server", "appendonly is no", "changes", "CONFIG SET appendonly yes"];
    let findings = diagnosed(&store, Tolerance::default()).await;
    assert_only(&findings, "redis-persistence", Severity::Problem, &words);

    set(&server, "appendonly", "yes").await;
    set(&server, "appendfsync", "everysec").await;
    let findings = diagnosed(&store, Tolerance::default()).await;
    assert_only(
        &findings,
        "redis-fsync",
        Severity::Note,
        &["appendfsync is not always", "set appendfsync to always"],
    );

    set(&server, "appendfsync", "always").await;
    set(&server, "maxmemory-policy", "allkeys-lru").await;
    assert_eq!(diagnosed(&store, Tolerance::default()).await, [], "memory has no limit");
    set(&server, "maxmemory", "1gb").await;
    let findings = diagnosed(&store, Tolerance::default()).await;
    let words = ["maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction"];
    assert_only(&findings, "redis-eviction", Severity::Problem, &words);
    set(&server, "maxmemory-policy", "volatile-lru").await;
    assert_eq!(diagnosed(&store, Tolerance::default()).await, [], "no key of the outbox has an end");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn limits_of_a_server_are_found_before_they_are_reached() {
    let server = RedisServer::durable(&[]).started().await;
    let store = store_on(&server).await;
    set(&server, "maxmemory", "1gb").await;
    assert_eq!(diagnosed(&store, Tolerance::default()).await, []);
    let findings = diagnosed(&store, Tolerance::default().with_used(0)).await;
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["redis-memory", "connection-limit"]);
    assert!(findings[0].what.contains("of the 1024 MiB of its maxmemory"), "{findings:?}");
    assert!(findings[1].what.contains("connections of the server are taken"), "{findings:?}");
}

/// The least rights of the documentation: INFO tells, CONFIG is refused.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn user_without_config_is_told_what_info_knows() {
    let server = RedisServer::new(&["--appendonly", "no"]).started().await;
    let mut rights = redis::cmd("ACL");
    rights.arg(&["SETUSER", "posthaste", "on", ">secret", "~{outbox:*", "&outbox:wake"]);
    rights.arg(&["+@read", "+@write", "+@stream", "+@sortedset", "+@hash", "+@scripting", "+@pubsub"]);
    rights.arg(&["+@transaction", "+@connection", "+info", "+time", "+type"]);
    let _: () = rights.query_async(&mut support::connect(&server.url()).await).await.expect("ACL SETUSER");
    let url = server.url().replace("redis://", "redis://posthaste:secret@");
    let store = RedisStore::builder(&url).expect("a good URL").connect().await.expect("the store opens");
    let findings = diagnosed(&store, Tolerance::default()).await;
    assert_only(&findings, "redis-persistence", Severity::Problem, &["appendonly is no"]);
    set(&server, "appendonly", "yes").await;
    set(&server, "appendfsync", "everysec").await;
    assert_eq!(diagnosed(&store, Tolerance::default()).await, [], "nobody is blamed for what is not known");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn every_primary_of_a_cluster_is_asked() {
    let urls = support::cluster_urls();
    let name = support::fresh_name();
    let store = RedisStore::cluster(urls.iter().map(String::as_str)).expect("good URLs");
    let store = store.name(name.clone()).shards(6).connect().await.expect("the store opens");
    let findings = diagnosed(&store, Tolerance::default().with_used(0)).await;
    let nodes: std::collections::BTreeSet<&str> = findings
        .iter()
        .filter(|finding| finding.code == "connection-limit")
        .filter_map(|finding| finding.what.split("the node ").nth(1)?.split(' ').next())
        .collect();
    assert!(nodes.len() >= 3, "{findings:?}");
    let client = redis::cluster::ClusterClient::new(urls).expect("good URLs");
    let mut connection = client.get_async_connection().await.expect("the cluster answers");
    support::remove(&mut connection, &name, 6).await;
}
