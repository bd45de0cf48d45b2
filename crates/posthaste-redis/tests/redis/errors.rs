//! Mistakes of servers, operators and foreign programs: clear errors, and no partial writes.

use std::error::Error;
use std::time::Duration;

use posthaste::admin::{Admin as _, Filter, PageRequest};
use posthaste::store::Store as _;
use posthaste::{Event, Status};
use posthaste_redis::{OpenError, RedisCommitError, RedisStore, RedisWriter};
use posthaste_testkit::certificates::certificates_for;
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::{wait_until, within_timeout};
use redis::AsyncCommands as _;

use crate::support::{
    NO_ARGS, OUTBOX_KEYS, builder, claim, claim_by, cluster_urls, command, config_set, connect, engine,
    event, fresh_name, key_of, later_event, me, of_size, on_one_server, open, server_url, writer_of,
};

/// An error with all its sources.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

// S1-07
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn key_of_another_type_is_named_at_open_and_fails_every_script_before_it_writes() {
    for foreign in OUTBOX_KEYS {
        let outbox = on_one_server(1).await;
        let _: () = outbox.run("SET", foreign, "not ours").await;
        let text = with_sources(&outbox.writer().write(event("A", "1")).await.expect_err("refused"));
        assert!(text.contains(foreign) && text.contains("rename or delete"), "{text}");
        assert!(claim(&outbox.store).await.is_err(), "{foreign}");
        let written: Vec<String> = outbox.run("KEYS", "*", NO_ARGS).await;
        assert!(written.len() <= 2, "only the foreign key and the settings: {written:?}");
        let error = builder(&outbox.name).connect().await.expect_err("refused at open");
        assert!(matches!(&error, OpenError::ForeignKey { key, .. } if key.ends_with(foreign)), "{error:?}");
        outbox.end().await;
    }
}

// S1-13, S1-09
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn foreign_members_hide_nothing_and_are_removed_by_the_repair() {
    let outbox = on_one_server(1).await;
    for n in 0..300 {
        let _: u8 = outbox.run("ZADD", "pending", (0, format!("missing-{n}"))).await;
    }
    let _: String = outbox.run("XADD", "arrivals", ("*", "what", "ever")).await;
    outbox.writer().write(event("A", "1")).await.expect("it is stored");
    let mut found = 0;
    for _ in 0..40 {
        found += claim(&outbox.store).await.expect("the claim works").events.len();
    }
    assert_eq!(found, 1, "the event behind them is found");
    let repaired = outbox.store.repair().await.expect("the repair works");
    assert_eq!(repaired.members, 300);
    assert_eq!(outbox.run::<u64>("ZCARD", "pending", NO_ARGS).await, 1);
}

// S1-09
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn body_without_an_index_entry_is_found_and_delivered() {
    // More than one page of the repair.
    const BODIES: usize = 250;
    let test_outbox = on_one_server(1).await;
    for n in 0..BODIES {
        let body = r#"{"event_type":"Lost","payload":{"a":1}}"#;
        let _: u8 = test_outbox.run("HSET", "entries", (format!("lost-{n}"), body)).await;
    }
    let store = &test_outbox.store;
    let (outbox, recorder) = engine(store);
    let repaired = store.repair().await.expect("the repair works");
    assert_eq!(repaired.bodies, BODIES as u64);
    let page = PageRequest::first(PageRequest::MAX_LIMIT);
    let rows = store.list(&Filter::default(), &page).await.expect("the store replies").items;
    assert_eq!(rows.len(), BODIES);
    assert!(
        rows.iter().all(|row| row.malformed.is_none() && row.payload_bytes == 7),
        "a list shows them too"
    );
    within_timeout("they are delivered", async {
        outbox.idle().await.expect("the store replies");
        recorder.wait_for(BODIES).await;
    })
    .await;
    outbox.shutdown().await;
}

/// An arrival is not an orphan.
// S1-29
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn repair_during_live_traffic_finds_and_changes_nothing() {
    let store =
        builder(&fresh_name()).repair_every(Duration::from_millis(1)).connect().await.expect("it opens");
    let (outbox, recorder) = engine(&store);
    let writer = RedisWriter::new(&store, &outbox);
    let mut connection = connect(&server_url()).await;
    let pass = async |store: &RedisStore| store.repair().await.expect("the repair works");
    for _ in 0..50 {
        let mut tx = writer.begin();
        tx.write_all((0..40).map(|n| event("Live", &n.to_string())).collect()).expect("good events");
        let (committed, repaired) = tokio::join!(tx.commit(&mut connection), pass(&store));
        committed.expect("it commits");
        assert!(repaired.is_empty(), "{repaired:?}");
    }
    within_timeout("all are delivered", recorder.wait_for(2000)).await;
    within_timeout("all are settled", outbox.idle()).await.expect("the store replies");
    assert!(pass(&store).await.is_empty());
    assert_eq!(recorder.count(), 2000, "each once");
    outbox.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn edited_bodies_become_dead_with_the_reason_and_do_not_block_others() {
    let test_outbox = on_one_server(1).await;
    let store = &test_outbox.store;
    let events: Vec<Event> = (0..6).map(|_| event("Edited", "1")).collect();
    test_outbox.writer().write_all(events.clone()).await.expect("they are stored");
    let bodies =
        ["sEcret", "{\"event_type\": \"A\"", "[1,2]", "", "{\"event_type\":7,\"payload\":\"sEcret\"}"];
    for (event, body) in events.iter().zip(bodies) {
        let _: u8 = test_outbox.run("HSET", "entries", (event.id().as_str(), body)).await;
    }
    let (outbox, recorder) = engine(store);
    within_timeout("the valid one is delivered", recorder.wait_for(1)).await;
    wait_until("the others are dead", async || store.stats().await.expect("stats").dead == 5).await;
    for event in &events[..5] {
        let row = store.get(event.id()).await.expect("get").expect("it is there").row;
        let reason = row.last_error.expect("a reason");
        assert!(row.status == Status::Dead && !reason.contains("sEcret"), "{reason}");
    }
    outbox.shutdown().await;
}

// S1-18
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn full_memory_refuses_whole_transactions_and_delivery_continues_when_there_is_room() {
    let server = RedisServer::new(&["--maxmemory-policy", "noeviction"]).started().await;
    let store = open(&server).await;
    let mut connection = connect(&server.url()).await;
    let (outbox, recorder) = engine(&store);
    let writer = RedisWriter::new(&store, &outbox);
    writer.write(event("Before", "1")).await.expect("it is stored");
    config_set(&server, "maxmemory", 1).await;
    let mut tx = writer.begin();
    tx.set("{outbox:0}:ticket", "minted");
    tx.write(event("Refused", "1")).expect("a good event");
    let error = tx.commit(&mut connection).await.expect_err("no memory");
    assert!(matches!(error, RedisCommitError::RolledBack(_)), "{error:?}");
    let text = with_sources(&writer.write(event("Refused", "1")).await.expect_err("no memory"));
    assert!(text.contains("raise maxmemory"), "{text}");
    config_set(&server, "maxmemory", 0).await;
    assert_eq!(connection.get::<_, Option<String>>("{outbox:0}:ticket").await.expect("GET"), None);
    writer.write(event("After", "1")).await.expect("it is stored");
    within_timeout("both are delivered", recorder.wait_for(2)).await;
    wait_until("both are settled", async || store.stats().await.expect("stats").done == 2).await;
    let repaired = store.repair().await.expect("the repair works");
    assert!(repaired.is_empty(), "{repaired:?}");
    assert_eq!(recorder.deliveries().iter().filter(|delivery| delivery.event_type() == "Refused").count(), 0);
    outbox.shutdown().await;
}

/// The outcome of a claimed event could not be stored, so it would be delivered over and over.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn full_memory_refuses_claims() {
    let server = RedisServer::new(&["--maxmemory-policy", "noeviction"]).started().await;
    let store = open(&server).await;
    writer_of(&store).write(event("A", "1")).await.expect("it is stored");
    for (bytes, is_full) in [(1, true), (0, false)] {
        config_set(&server, "maxmemory", bytes).await;
        match claim(&store).await {
            Ok(claimed) => assert!(!is_full && claimed.events.len() == 1, "{claimed:?}"),
            Err(error) => assert!(is_full && with_sources(&error).contains("raise maxmemory"), "{error:?}"),
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn replica_is_refused_unless_it_is_opened_read_only() {
    let primary = RedisServer::new(&[]).started().await;
    let store = open(&primary).await;
    writer_of(&store).write(event("A", "1")).await.expect("it is stored");
    claim(&store).await.expect("the claim works");
    let replica =
        RedisServer::new(&["--replicaof", "127.0.0.1", &primary.port().to_string()]).started().await;
    let error = RedisStore::connect(&replica.url()).await.expect_err("a replica");
    assert!(
        matches!(error, OpenError::ReadOnlyServer { .. }) && error.to_string().contains("read_only()"),
        "{error}"
    );
    let reader = RedisStore::builder(&replica.url()).expect("a good URL").read_only();
    let reader = reader.connect().await.expect("it opens");
    wait_until("the event is there", async || reader.stats().await.is_ok_and(|stats| stats.new == 1)).await;
    let text = with_sources(&writer_of(&reader).write(event("B", "1")).await.expect_err("a replica"));
    assert!(text.contains("is read-only"), "{text}");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn busy_server_and_a_killed_script_are_reported_and_do_no_harm() {
    let server = RedisServer::new(&["--lua-time-limit", "10"]).started().await;
    let store = open(&server).await;
    let writer = writer_of(&store);
    let endless = tokio::spawn({
        let mut connection = connect(&server.url()).await;
        async move {
            let mut eval = redis::cmd("EVAL");
            eval.arg("while true do end").arg(0);
            eval.query_async::<()>(&mut connection).await.expect_err("it is killed")
        }
    });
    wait_until("the server reports that it is busy", async || match writer.write(event("A", "1")).await {
        Err(error) => with_sources(&error).contains("SCRIPT KILL"),
        Ok(_) => false,
    })
    .await;
    let _: () = command(&server, "SCRIPT", "KILL").await;
    endless.await.expect("no panic");
    writer.write(event("B", "1")).await.expect("it is stored");
    assert!(store.repair().await.expect("the repair works").is_empty());
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn errors_at_open_say_what_to_do_and_show_no_secret() {
    let server = RedisServer::new(&["--requirepass", "the-right-one"]).started().await;
    let with = |login: &str| format!("redis://{login}127.0.0.1:{}/", server.port());
    for login in ["", ":sEcret@", "ann:sEcret@"] {
        let error = RedisStore::connect(&with(login)).await.expect_err("refused");
        assert!(matches!(error, OpenError::Refused { .. }), "{login}: {error:?}");
        assert!(!format!("{error:?} {}", with_sources(&error)).contains("sEcret"), "{error:?}");
    }
    RedisStore::connect(&with(":the-right-one@")).await.expect("it opens");
    let error = RedisStore::connect("redis://127.0.0.1:1/").await.expect_err("no server there");
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let error = RedisStore::connect("http://localhost/").await.expect_err("not a URL of Redis");
    assert!(matches!(error, OpenError::Url(_)), "{error:?}");
    let node = cluster_urls().remove(0);
    let error = RedisStore::connect(&node).await.expect_err("a node of a cluster");
    assert!(matches!(error, OpenError::ClusterNode { .. }), "{error:?}");
}

// T14
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn number_of_shards_cannot_be_changed() {
    let name = fresh_name();
    let first = builder(&name).shards(4).connect().await.expect("it opens");
    let again = builder(&name).connect().await.expect("it uses the stored number");
    for ticket in ["1", "17", "ticket-99"] {
        assert_eq!(first.tag(ticket), again.tag(ticket));
    }
    let error = builder(&name).shards(8).connect().await.expect_err("another number");
    assert!(matches!(error, OpenError::Shards { found: 4, asked: 8, .. }), "{error:?}");
}

// S9
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn tls_accepts_only_a_certificate_of_the_given_authority_and_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = certificates_for(folder.path(), &["localhost"]);
    let other_root = certificates_for(tempfile::tempdir().expect("a folder").path(), &["localhost"]);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
    let settings = [&["--tls-port", "PORT", "--tls-auth-clients", "no"], &files[..]].concat();
    let server = RedisServer::new(&settings).started().await;
    let url = |host: &str| format!("rediss://{host}:{}/", server.port());
    let open = async |host: &str, root: &str| {
        RedisStore::builder(&url(host)).expect("a good URL").root_certificate(root).connect().await
    };
    let store = open("localhost", &root).await.expect("it opens");
    let (outbox, recorder) = engine(&store);
    RedisWriter::new(&store, &outbox).write(event("A", "1")).await.expect("it is stored");
    within_timeout("it is delivered", recorder.wait_for(1)).await;
    outbox.shutdown().await;
    assert!(open("localhost", &other_root).await.is_err(), "another authority");
    assert!(open("127.0.0.1", &root).await.is_err(), "another name");
    assert!(RedisStore::connect(&url("localhost")).await.is_err(), "an authority that is not public");
    assert!(RedisStore::connect(&server.url()).await.is_err(), "no TLS at all");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn settings_key_of_another_type_is_named_and_nothing_is_written() {
    let name = fresh_name();
    let (settings, mut connection) = (key_of(&name, "settings"), connect(&server_url()).await);
    let _: () = connection.set(&settings, "not ours").await.expect("SET");
    let error = builder(&name).connect().await.expect_err("refused at open");
    assert!(matches!(&error, OpenError::ForeignKey { key, .. } if key.ends_with("settings")), "{error:?}");
    let _: () = connection.del(&settings).await.expect("DEL");
    let _: () = connection.set(key_of(&name, "pending"), "not ours").await.expect("SET");
    builder(&name).connect().await.expect_err("refused at open");
    assert!(!connection.exists::<_, bool>(&settings).await.expect("EXISTS"));
}

/// This age is the metric that users alert on.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn age_of_a_due_event_is_seen_behind_thousands_of_scheduled_events() {
    let outbox = on_one_server(1).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    writer.write_all((0..3000).map(|_| later_event()).collect()).await.expect("they are stored");
    assert_eq!(store.oldest_pending(None).await.expect("the store replies"), None);
    writer.write(event("Now", "1")).await.expect("it is stored");
    store.stats().await.expect("everything is indexed");
    assert!(store.oldest_pending(None).await.expect("the store replies").is_some());
    outbox.end().await;
}

/// A reply that takes the server seconds would time out, and every row in it would stay leased.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn large_payloads_are_claimed_in_small_replies() {
    const EVENTS: usize = 120;
    let outbox = on_one_server(1).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    for _ in 0..EVENTS {
        writer.write(of_size("1", 1024 * 1024)).await.expect("it is stored");
    }
    let owner = me();
    let request = claim_by(&owner).with_limit(EVENTS);
    let claimed = store.claim(&request).await.expect("the claim works");
    assert_eq!(claimed.events.len(), EVENTS);
    assert!(claimed.events.iter().all(|leased| leased.event.payload().len() == 1024 * 1024));
    assert!(claim(store).await.expect("the claim works").events.is_empty(), "each is leased once");
    outbox.end().await;
}
