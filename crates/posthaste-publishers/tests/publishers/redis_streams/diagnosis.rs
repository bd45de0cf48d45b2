//! What a doctor finds about Redis.

use posthaste::admin::Severity;
use posthaste_publishers::Publisher as _;
use posthaste_testkit::server::RedisServer;

use super::publisher_of;
use super::server::command;

async fn codes(server: &RedisServer, login: &str) -> Vec<(&'static str, Severity)> {
    let url = format!("redis-stream://{login}127.0.0.1:{}?stream=orders", server.port());
    let findings = publisher_of(&url).diagnose().await;
    println!("{findings:#?}");
    findings.into_iter().map(|finding| (finding.code, finding.severity)).collect()
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_keeps_everything_has_no_finding() {
    let mut server = RedisServer::durable(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
    server.start().await;
    assert_eq!(codes(&server, "").await, []);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_without_a_log_or_with_a_late_one_is_found() {
    let mut server = RedisServer::durable(&[]);
    server.start().await;
    command(&server, &["CONFIG", "SET", "appendfsync", "everysec"]).await;
    assert_eq!(codes(&server, "").await, [("redis-fsync", Severity::Note)]);
    command(&server, &["CONFIG", "SET", "appendonly", "no"]).await;
    assert_eq!(codes(&server, "").await, [("redis-persistence", Severity::Warning)]);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_drops_streams_when_it_is_full_is_found() {
    let mut server = RedisServer::durable(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    server.start().await;
    assert_eq!(codes(&server, "").await, [("redis-eviction", Severity::Warning)]);
    command(&server, &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).await;
    assert_eq!(codes(&server, "").await, [], "a stream has no time to live");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn user_who_may_only_add_is_told_nothing_wrong() {
    let mut server = RedisServer::durable(&["--appendonly", "no"]);
    server.start().await;
    command(&server, &["ACL", "SETUSER", "some", "on", ">some", "~orders", "+xadd"]).await;
    assert_eq!(codes(&server, "some:some@").await, []);
}
