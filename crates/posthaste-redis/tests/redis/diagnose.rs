//! Findings about a Redis server. Each test starts a server that has the problem.

use posthaste::admin::{Finding, Severity, Tolerance};
use posthaste_redis::{RedisStore, RedisWriter};
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::{assert_found, diagnosed, diagnosed_with, within_timeout};

use crate::support::{command, config_set, engine, event, on_a_cluster, open};

/// Asserts that there is one finding, with this code and severity, whose text contains all these words.
#[track_caller]
fn assert_only(findings: &[Finding], code: &str, severity: Severity, words: &[&str]) {
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(assert_found(findings, code, words).severity, severity);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn healthy_outbox_has_no_findings() {
    let server = RedisServer::durable(&[]).started().await;
    let store = open(&server).await;
    assert_eq!(diagnosed(&store).await, []);
    let (outbox, recorder) = engine(&store);
    RedisWriter::new(&store, &outbox).write(event("TicketMinted", "17")).await.expect("it is written");
    within_timeout("it is delivered", recorder.wait_for(1)).await;
    within_timeout("the engine is idle", outbox.idle()).await.expect("the store replies");
    assert_eq!(diagnosed(&store).await, []);
    outbox.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_without_persistence_or_with_eviction_is_found() {
    let server = RedisServer::new(&["--appendonly", "no"]).started().await;
    let store = open(&server).await;
    let words = ["the server", "appendonly is no", "changes", "CONFIG SET appendonly yes"];
    let findings = diagnosed(&store).await;
    assert_only(&findings, "redis-persistence", Severity::Problem, &words);

    config_set(&server, "appendonly", "yes").await;
    config_set(&server, "appendfsync", "everysec").await;
    let findings = diagnosed(&store).await;
    assert_only(
        &findings,
        "redis-fsync",
        Severity::Note,
        &["appendfsync is not always", "set appendfsync to always"],
    );

    config_set(&server, "appendfsync", "always").await;
    config_set(&server, "maxmemory-policy", "allkeys-lru").await;
    assert_eq!(diagnosed(&store).await, [], "memory is not limited");
    config_set(&server, "maxmemory", "1gb").await;
    let findings = diagnosed(&store).await;
    let words = ["maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction"];
    assert_only(&findings, "redis-eviction", Severity::Problem, &words);
    config_set(&server, "maxmemory-policy", "volatile-lru").await;
    assert_eq!(diagnosed(&store).await, [], "no key of the outbox has an expiry time");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn limits_of_a_server_are_found_before_they_are_reached() {
    let server = RedisServer::durable(&[]).started().await;
    let store = open(&server).await;
    config_set(&server, "maxmemory", "1gb").await;
    assert_eq!(diagnosed(&store).await, []);
    let findings = diagnosed_with(&store, Tolerance::default().with_used(0)).await;
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["redis-memory", "connection-limit"]);
    assert!(findings[0].what.contains("of the 1024 MiB of its maxmemory"), "{findings:?}");
    assert!(findings[1].what.contains("connections of the server are taken"), "{findings:?}");
}

/// The minimum permissions of the documentation allow INFO but not CONFIG.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn user_without_config_gets_the_findings_from_info() {
    let server = RedisServer::new(&["--appendonly", "no"]).started().await;
    let user = ["SETUSER", "posthaste", "on", ">secret", "~{outbox:*", "&outbox:wake"];
    let rights = ["+@read", "+@write", "+@stream", "+@sortedset", "+@hash", "+@scripting", "+@pubsub"];
    let more_rights = ["+@transaction", "+@connection", "+info", "+time", "+type"];
    let _: () = command(&server, "ACL", (&user, &rights, &more_rights)).await;
    let url = server.url().replace("redis://", "redis://posthaste:secret@");
    let store = RedisStore::connect(&url).await.expect("the store opens");
    let findings = diagnosed(&store).await;
    assert_only(&findings, "redis-persistence", Severity::Problem, &["appendonly is no"]);
    config_set(&server, "appendonly", "yes").await;
    config_set(&server, "appendfsync", "everysec").await;
    assert_eq!(diagnosed(&store).await, [], "an unknown setting is no finding");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn every_primary_of_a_cluster_is_diagnosed() {
    let outbox = on_a_cluster(6).await;
    let findings = diagnosed_with(&outbox.store, Tolerance::default().with_used(0)).await;
    let nodes: std::collections::BTreeSet<&str> = findings
        .iter()
        .filter(|finding| finding.code == "connection-limit")
        .filter_map(|finding| finding.what.split("the node ").nth(1)?.split(' ').next())
        .collect();
    assert!(nodes.len() >= 3, "{findings:?}");
    outbox.end().await;
}
