//! Large bodies: no script reads many of them in one call, and no row is left out because of that.

use std::time::Duration;

use posthaste::admin::{Admin as _, BacklogBy, Filter, PageRequest};
use posthaste::store::{Purge, Purgeable, Store as _};
use posthaste_redis::RedisStore;
use posthaste_testkit::server::RedisServer;
use redis::aio::MultiplexedConnection;

use crate::support::{command, connect, of_size, on_one_server, open};

const MIB: u64 = 1024 * 1024;

/// The server's memory in bytes: used now, and at the peak.
async fn memory(connection: &mut MultiplexedConnection) -> (u64, u64) {
    let info: String = redis::cmd("INFO").arg("memory").query_async(connection).await.expect("INFO");
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| text.trim().parse().ok()).expect("a number")
    };
    (value("used_memory"), value("used_memory_peak"))
}

/// Number of calls of a command since the server's statistics were reset.
async fn calls(connection: &mut MultiplexedConnection, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await.expect("INFO");
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// An outbox on its own server with `count` bodies of 1 MiB that no index leads to.
async fn with_large_bodies(count: usize) -> (RedisServer, RedisStore, MultiplexedConnection) {
    let server = RedisServer::new(&[]).started().await;
    let store = open(&server).await;
    let mut connection = connect(&server.url()).await;
    for n in 0..count {
        let body = format!(r#"{{"event_type":"Large","payload":"{}"}}"#, "x".repeat(MIB as usize));
        let mut set = redis::cmd("HSET");
        set.arg("{outbox:0}:entries").arg(format!("lost-{n}")).arg(body);
        let _: u8 = set.query_async(&mut connection).await.expect("HSET");
    }
    (server, store, connection)
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn repair_and_lists_hold_few_large_bodies_in_memory() {
    const EVENTS: usize = 150;
    const MAX_MEMORY_BYTES: u64 = 64 * MIB;
    let (_server, store, mut connection) = with_large_bodies(EVENTS).await;
    let (before, _) = memory(&mut connection).await;
    let assert_bounded = async |connection: &mut MultiplexedConnection, what: &str| {
        let (_, peak) = memory(connection).await;
        assert!(peak < before + MAX_MEMORY_BYTES, "{what}: {} MiB more", (peak - before) / MIB);
    };

    let repaired = store.repair().await.expect("the repair works");
    assert_eq!(repaired.bodies, EVENTS as u64, "all are found");
    let scripts = calls(&mut connection, "evalsha").await;
    assert!(scripts >= EVENTS as u64 / 4, "each call reads few of them: {scripts}");
    assert_bounded(&mut connection, "the repair").await;

    let (mut page, mut ids) = (PageRequest::first(EVENTS), Vec::new());
    loop {
        let read = store.list(&Filter::default(), &page).await.expect("the list works");
        ids.extend(read.items.into_iter().map(|row| row.id));
        let Some(next) = read.next else { break };
        page = PageRequest::after(next, EVENTS);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), EVENTS, "all are listed");
    let backlog = store.backlog(BacklogBy::Type, 10).await.expect("the backlog is read");
    assert!(!backlog.complete && backlog.groups.len() == 1, "{backlog:?}");
    assert_bounded(&mut connection, "lists").await;
}

/// Every body is in an index, including rows of other programs that no script has seen.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn repair_with_nothing_to_find_reads_no_body() {
    let (server, store, mut connection) = with_large_bodies(3).await;
    for n in 0..3 {
        let _: u8 = command(&server, "ZADD", ("{outbox:0}:pending", n, format!("lost-{n}"))).await;
    }
    let _: () = command(&server, "CONFIG", "RESETSTAT").await;
    assert!(store.repair().await.expect("the repair works").is_empty());
    // For states only.
    for (command, times) in [("hscan", 1), ("hmget", 1), ("hget", 0)] {
        assert_eq!(calls(&mut connection, command).await, times, "{command}");
    }
    assert_eq!(store.stats().await.expect("stats").due, 3, "they are indexed");
}

/// The page of a shard with large rows is short. Rows of other shards must not be listed before the rows missing from
/// it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn list_over_shards_with_large_and_small_rows_is_in_order_and_complete() {
    const SHARDS: u16 = 3;
    const ROWS: usize = 45;
    let outbox = on_one_server(SHARDS).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    // Aggregates are spread over the shards. Those of the first shard get large rows.
    let first = store.tag("0");
    for n in 0..ROWS {
        let aggregate = (n % 10).to_string();
        let bytes = if store.tag(&aggregate) == first { 1_000_000 } else { 2 };
        writer.write(of_size(&aggregate, bytes)).await.expect("it is stored");
    }
    let page = PageRequest::first(ROWS + 1);
    let rows = store.list(&Filter::default(), &page).await.expect("the list works");
    assert_eq!((rows.items.len(), rows.next), (ROWS, None));
    assert!(rows.items.is_sorted_by_key(|row| row.seq), "in order");
    assert!(store.backlog(BacklogBy::Type, 10).await.expect("the backlog is read").complete);
    outbox.end().await;
}

/// One call deletes a bounded amount, and the next call continues behind it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn purge_deletes_all_large_rows_in_several_steps() {
    const EVENTS: usize = 150;
    let (server, store, mut connection) = with_large_bodies(EVENTS).await;
    store.repair().await.expect("the repair works");
    let _: () = command(&server, "CONFIG", "RESETSTAT").await;
    let purge = Purge::new(Purgeable::Any, Duration::ZERO, 1000);
    assert_eq!(store.purge_batch(&purge).await.expect("the purge works"), EVENTS as u64);
    let calls = calls(&mut connection, "hdel").await;
    assert!(calls >= 6, "one call for bodies and one for states in each of three steps: {calls}");
    assert_eq!(store.stats().await.expect("stats").new, 0);
}
