//! What a doctor finds about Redis.

use posthaste::admin::Severity;
use posthaste_testkit::server::RedisServer;

use super::server::{command, url};
use crate::delivery::codes;

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_keeps_everything_has_no_finding() {
    let server =
        RedisServer::durable(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]).started().await;
    assert_eq!(codes(&url(&server)).await, []);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_without_a_log_or_with_a_late_one_is_found() {
    let server = RedisServer::durable(&[]).started().await;
    command(&server, &["CONFIG", "SET", "appendfsync", "everysec"]).await;
    assert_eq!(codes(&url(&server)).await, [("redis-fsync", Severity::Note)]);
    command(&server, &["CONFIG", "SET", "appendonly", "no"]).await;
    assert_eq!(codes(&url(&server)).await, [("redis-persistence", Severity::Warning)]);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_drops_streams_when_it_is_full_is_found() {
    let server =
        RedisServer::durable(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).started().await;
    assert_eq!(codes(&url(&server)).await, [("redis-eviction", Severity::Warning)]);
    command(&server, &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).await;
    assert_eq!(codes(&url(&server)).await, [], "a stream has no time to live");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn user_who_may_only_add_is_told_nothing_wrong() {
    let server = RedisServer::durable(&["--appendonly", "no"]).started().await;
    command(&server, &["ACL", "SETUSER", "some", "on", ">some", "~orders", "+xadd"]).await;
    assert_eq!(codes(&url(&server).replace("127.0.0.1", "some:some@127.0.0.1")).await, []);
}
