//! Large bodies: no script reads many of them at once, whatever it is asked for, and nothing is left out for that.

use std::time::Duration;

use posthaste::admin::{Admin as _, BacklogBy, Filter, PageRequest};
use posthaste::store::{Purge, Purgeable, Store};
use posthaste::{Event, Outbox, Routes};
use posthaste_redis::RedisStore;
use posthaste_testkit::server::RedisServer;
use redis::aio::MultiplexedConnection;

use crate::support::{self, store_with_shards};

const MIB: u64 = 1024 * 1024;

/// How much memory the server has used: now, and at most.
async fn memory(connection: &mut MultiplexedConnection) -> (u64, u64) {
    let info: String = redis::cmd("INFO").arg("memory").query_async(connection).await.expect("INFO");
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| text.trim().parse().ok()).expect("a number")
    };
    (value("used_memory"), value("used_memory_peak"))
}

/// How often the server has run a command since its counts were reset.
async fn calls(connection: &mut MultiplexedConnection, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await.expect("INFO");
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// An outbox on a server of its own, with so many bodies of one mebibyte, to which nothing leads.
async fn with_large_bodies(count: usize) -> (RedisServer, RedisStore, MultiplexedConnection) {
    let server = RedisServer::new(&[]).started().await;
    let store = RedisStore::connect(&server.url()).await.expect("it opens");
    let mut connection = support::connect(&server.url()).await;
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
async fn repair_and_lists_hold_few_large_bodies_at_once() {
    const EVENTS: usize = 150;
    const MAX_MEMORY_BYTES: u64 = 64 * MIB;
    let (_server, store, mut connection) = with_large_bodies(EVENTS).await;
    let (before, _) = memory(&mut connection).await;
    let assert_bounded = async |connection: &mut MultiplexedConnection, what: &str| {
        let (_, peak) = memory(connection).await;
        assert!(peak < before + MAX_MEMORY_BYTES, "{what}: {} MiB more", (peak - before) / MIB);
    };

    let repaired = store.repair_worker().run_once().await.expect("the repair works");
    assert_eq!(repaired.bodies, EVENTS as u64, "all are found");
    let scripts = calls(&mut connection, "evalsha").await;
    assert!(scripts >= EVENTS as u64 / 4, "each reads few of them: {scripts}");
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

/// An index leads to each body, also of rows that other programs wrote and that no script has seen yet.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn repair_that_has_nothing_to_find_reads_no_body() {
    let (_server, store, mut connection) = with_large_bodies(3).await;
    for n in 0..3 {
        let mut add = redis::cmd("ZADD");
        add.arg("{outbox:0}:pending").arg(n).arg(format!("lost-{n}"));
        let _: u8 = add.query_async(&mut connection).await.expect("ZADD");
    }
    let _: () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await.expect("RESETSTAT");
    assert!(store.repair_worker().run_once().await.expect("the repair works").is_empty());
    // Of states alone.
    for (command, times) in [("hscan", 1), ("hmget", 1), ("hget", 0)] {
        assert_eq!(calls(&mut connection, command).await, times, "{command}");
    }
    assert_eq!(store.stats().await.expect("stats").due, 3, "they have their places");
}

/// Where the rows of one shard are large, its part of a page is short; the rows of the others must not hide those
/// that are missing from it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn list_over_shards_with_large_and_small_rows_is_in_order_and_complete() {
    const SHARDS: u16 = 3;
    const ROWS: usize = 45;
    let (store, name) = store_with_shards(SHARDS).await;
    let nobody =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    // Each aggregate is in a shard of its own choice; those of the first one are large.
    let first = store.tag("0");
    for n in 0..ROWS {
        let aggregate = (n % 10).to_string();
        let payload = if store.tag(&aggregate) == first { &large } else { "{}" };
        let event = Event::builder("Sized").aggregate("Ticket", &aggregate).json_text(payload);
        let event = event.build().expect("a good event");
        store.writer(&nobody).write(event).await.expect("it is stored");
    }
    let page = PageRequest::first(ROWS + 1);
    let rows = store.list(&Filter::default(), &page).await.expect("the list works");
    assert_eq!((rows.items.len(), rows.next), (ROWS, None));
    assert!(rows.items.is_sorted_by_key(|row| row.seq), "in order");
    assert!(store.backlog(BacklogBy::Type, 10).await.expect("the backlog is read").complete);
    support::remove(&mut support::connect(&support::server_url()).await, &name, SHARDS).await;
}

/// What is deleted in one call is bounded, and the next call goes on where it ended.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn purge_deletes_large_rows_in_several_steps_and_all_of_them() {
    const EVENTS: usize = 150;
    let (_server, store, mut connection) = with_large_bodies(EVENTS).await;
    store.repair_worker().run_once().await.expect("the repair works");
    let _: () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await.expect("RESETSTAT");
    let purge = Purge::new(Purgeable::Any, Duration::ZERO, 1000);
    assert_eq!(store.purge_batch(&purge).await.expect("the purge works"), EVENTS as u64);
    let calls = calls(&mut connection, "hdel").await;
    assert!(calls >= 6, "a call for bodies and one for states in each of three steps: {calls}");
    assert_eq!(store.stats().await.expect("stats").new, 0);
}
