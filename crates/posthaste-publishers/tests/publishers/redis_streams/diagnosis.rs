//! Findings about Redis servers.

use posthaste::admin::Severity;
use posthaste_testkit::server::RedisServer;

use super::server::{command, url};
use crate::delivery::codes;

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn durable_server_without_eviction_has_no_finding() {
    let server =
        RedisServer::durable(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]).started().await;
    assert_eq!(codes(&url(&server)).await, []);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_without_aof_or_with_delayed_fsync_is_reported() {
    let server = RedisServer::durable(&[]).started().await;
    command(&server, &["CONFIG", "SET", "appendfsync", "everysec"]).await;
    assert_eq!(codes(&url(&server)).await, [("redis-fsync", Severity::Note)]);
    command(&server, &["CONFIG", "SET", "appendonly", "no"]).await;
    assert_eq!(codes(&url(&server)).await, [("redis-persistence", Severity::Warning)]);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_that_evicts_streams_is_reported() {
    let server =
        RedisServer::durable(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).started().await;
    assert_eq!(codes(&url(&server)).await, [("redis-eviction", Severity::Warning)]);
    command(&server, &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).await;
    assert_eq!(
        codes(&url(&server)).await,
        [],
        "volatile policies do not evict streams, which have no time to live"
    );
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn user_who_may_only_add_gets_no_finding() {
    let server = RedisServer::durable(&["--appendonly", "no"]).started().await;
    command(&server, &["ACL", "SETUSER", "some", "on", ">some", "~orders", "+xadd"]).await;
    assert_eq!(codes(&url(&server).replace("127.0.0.1", "some:some@127.0.0.1")).await, []);
}
