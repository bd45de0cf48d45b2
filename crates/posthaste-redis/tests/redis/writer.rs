//! The Writer: the service's own commands and its events in one transaction, and in scripts.

use std::sync::{Arc, Mutex};

use posthaste::admin::{Admin as _, Filter};
use posthaste::{BoxError, Event, Outbox, Routes, Status, WriteError, WriterHook};
use posthaste_redis::{ENQUEUE_LUA, RedisCommitError, RedisStore, RedisWriter};
use posthaste_testkit::{wait_until, within_timeout};
use redis::AsyncCommands as _;

use crate::support::{NO_ARGS, TestOutbox, connect, engine, event, on_a_cluster, on_one_server, server_url};

/// Every call of a hook, in order.
#[derive(Clone, Default)]
struct HookLog(Arc<Mutex<Vec<&'static str>>>);

impl HookLog {
    fn note(&self, name: &'static str) {
        self.0.lock().expect("no panic").push(name);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl WriterHook for HookLog {
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        self.note("before_write");
        match events.iter().any(|event| event.event_type() == "Refused") {
            true => Err("refused".into()),
            false => Ok(events.into_iter().filter(|event| event.event_type() != "Suppressed").collect()),
        }
    }

    fn after_write(&self, _: &[Event]) {
        self.note("after_write");
    }

    fn after_commit(&self, _: &[Event]) {
        self.note("after_commit");
    }

    fn after_rollback(&self, _: &[Event]) {
        self.note("after_rollback");
    }
}

/// A Writer as in a process without an engine, and the calls of its hook.
fn hooked(outbox: &TestOutbox) -> (RedisWriter, HookLog) {
    let log = HookLog::default();
    let own = Outbox::builder(outbox.store.clone(), Routes::new()).writer_only().hook(log.clone());
    (RedisWriter::new(&outbox.store, &own.build().expect("a good configuration")), log)
}

async fn count(store: &RedisStore) -> u64 {
    store.count(&Filter::default()).await.expect("the store replies")
}

// S1-45, S1-03, S0-24, S1-02
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn mint_and_event_are_stored_together_and_delivered_hot() {
    let test_outbox = on_one_server(1).await;
    let store = &test_outbox.store;
    let (outbox, recorder) = engine(store);
    let writer = RedisWriter::new(store, &outbox);
    let mut connection = test_outbox.connection.clone();
    let ticket = test_outbox.key("ticket");

    let mut tx = writer.begin();
    tx.set(&ticket, "minted").incr(test_outbox.key("minted"), 1);
    let id = tx.write(event("TicketMinted", "17")).expect("a good event").expect("not suppressed");
    let (_set, minted): ((), u64) =
        tx.commit(&mut connection).await.expect("it commits").read().expect("two replies");

    assert_eq!(minted, 1);
    assert_eq!(connection.get::<_, String>(&ticket).await.expect("GET"), "minted");
    within_timeout("it is delivered without a poll", recorder.wait_for(1)).await;
    assert_eq!(recorder.ids(), std::slice::from_ref(&id));
    within_timeout("it is settled", outbox.idle()).await.expect("the store replies");
    let row = store.get(&id).await.expect("the store replies").expect("it is kept").row;
    assert_eq!(row.status, Status::Done);
    outbox.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn transaction_that_is_not_applied_stores_nothing_and_hooks_get_a_rollback() {
    for how in ["dropped", "conflict", "refused", "cleared"] {
        let outbox = on_one_server(1).await;
        let (writer, log) = hooked(&outbox);
        let (ticket, mut connection) = (outbox.key("ticket"), outbox.connection.clone());
        let _: () = redis::cmd("WATCH").arg(&ticket).query_async(&mut connection).await.expect("WATCH");
        let mut tx = writer.begin();
        tx.set(&ticket, "mine");
        tx.write(event("TicketMinted", "17")).expect("a good event");
        match how {
            "conflict" => {
                let _: () = connect(&server_url()).await.set(&ticket, "theirs").await.expect("SET");
            }
            // Wrong arity: refused when it is queued.
            "refused" => _ = tx.cmd("SET").arg("alone"),
            "cleared" => {
                tx.clear();
                tx.set(&ticket, "mine");
            }
            _ => {}
        }
        match how {
            "dropped" => drop(tx),
            "conflict" => {
                assert!(matches!(tx.commit(&mut connection).await, Err(RedisCommitError::Conflict)));
            }
            _ => assert!(
                matches!(tx.commit(&mut connection).await, Err(RedisCommitError::RolledBack(_))),
                "{how}"
            ),
        }
        assert_eq!(log.take(), ["before_write", "after_write", "after_rollback"], "{how}");
        assert_eq!(count(&outbox.store).await, 0, "{how}");
        let stored: Option<String> = outbox.run("GET", "ticket", NO_ARGS).await;
        assert_eq!(stored.as_deref(), (how == "conflict").then_some("theirs"), "{how}");
    }
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn hooks_run_in_order_and_may_refuse_or_suppress() {
    let outbox = on_one_server(1).await;
    let (writer, log) = hooked(&outbox);
    let mut connection = outbox.connection.clone();

    let mut tx = writer.begin();
    tx.write_all(vec![event("A", "1"), event("B", "1")]).expect("good events");
    tx.commit(&mut connection).await.expect("it commits");
    assert_eq!(log.take(), ["before_write", "after_write", "after_commit"]);

    writer.write(event("C", "1")).await.expect("it is stored");
    assert_eq!(log.take(), ["before_write", "after_write", "after_commit"]);

    let mut tx = writer.begin();
    assert!(matches!(tx.write(event("Refused", "1")), Err(WriteError::Hook(_))));
    assert_eq!(tx.write(event("Suppressed", "1")).expect("no error"), None);
    tx.commit(&mut connection).await.expect("an empty transaction does nothing");
    assert_eq!(writer.write(event("Suppressed", "1")).await.expect("no error"), None);
    assert_eq!(count(&outbox.store).await, 3);
}

// S1-17
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn id_that_exists_is_a_no_op_for_every_way_to_write() {
    let test_outbox = on_one_server(1).await;
    let (store, mut connection) = (&test_outbox.store, test_outbox.connection.clone());
    let (outbox, recorder) = engine(store);
    let writer = RedisWriter::new(store, &outbox);
    let once = |text: &str| Event::builder("Once").id("once").json_text(text).build().expect("a good event");

    let mut tx = writer.begin();
    tx.write(once("1")).expect("a good event");
    tx.commit(&mut connection).await.expect("it commits");
    for text in ["2", "3"] {
        let mut tx = writer.begin();
        tx.write(once(text)).expect("a good event");
        tx.commit(&mut connection).await.expect("it commits");
        writer.write(once(text)).await.expect("no error");
        let again = writer.for_script(once(text)).expect("a good event").expect("not suppressed");
        assert_eq!(mint(&mut connection, store, &again, "x").await, None);
        again.committed(None).expect("no error");
    }
    within_timeout("the engine is idle", outbox.idle()).await.expect("the store replies");
    assert_eq!(recorder.deliveries().iter().map(|d| d.payload().to_vec()).collect::<Vec<_>>(), [b"1"]);
    assert_eq!(count(store).await, 1);
    outbox.shutdown().await;
}

/// A script of a service that mints a ticket with its event.
async fn mint(
    connection: &mut redis::aio::MultiplexedConnection,
    store: &RedisStore,
    event: &posthaste_redis::ScriptEvent,
    ticket: &str,
) -> Option<String> {
    const MINT_SCRIPT: &str = "
        local stored = posthaste_enqueue(2, 2)
        redis.call('SET', KEYS[1], ARGV[1])
        return stored";
    redis::Script::new(&format!("{ENQUEUE_LUA}\n{MINT_SCRIPT}"))
        .key(format!("{}:ticket:{ticket}", store.tag(ticket)))
        .key(event.keys())
        .arg("minted")
        .arg(event.args())
        .invoke_async(connection)
        .await
        .expect("the script runs")
}

// S1-45, S0-24
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn script_of_the_service_stores_its_event_in_the_same_step() {
    let test_outbox = on_one_server(1).await;
    let (store, mut connection) = (&test_outbox.store, test_outbox.connection.clone());
    let (outbox, recorder) = engine(store);
    let writer = RedisWriter::new(store, &outbox);
    let part = writer.for_script(event("TicketMinted", "17")).expect("a good event").expect("not suppressed");
    let stored = mint(&mut connection, store, &part, "17").await;
    part.committed(stored.as_deref()).expect("a valid reply");
    within_timeout("it is delivered without a poll", recorder.wait_for(1)).await;
    outbox.shutdown().await;
}

// S1-15, S1-16, S1-02, S1-10, S1-11, S1-21
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn event_outside_a_transaction_is_stored_by_a_script_and_due_immediately() {
    let outbox = on_one_server(1).await;
    let before = outbox.now().await.as_micros();
    let id = outbox.writer().write(event("TicketMinted", "17")).await.expect("it is stored").expect("an id");
    let after = outbox.now().await.as_micros();
    let body: String = outbox.run("HGET", "entries", id.as_str()).await;
    assert!(body.contains(r#""event_type":"TicketMinted""#), "{body}");
    let score: i64 = outbox.run("ZSCORE", "pending", id.as_str()).await;
    assert!((before..=after).contains(&score), "due immediately: {score}");
}

// S1-06
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn failed_command_of_the_service_is_named_and_its_event_is_delivered() {
    let test_outbox = on_one_server(1).await;
    let (store, mut connection) = (&test_outbox.store, test_outbox.connection.clone());
    let (outbox, recorder) = engine(store);
    let _: u8 = test_outbox.run("LPUSH", "list", 1).await;
    let mut tx = RedisWriter::new(store, &outbox).begin();
    tx.set(test_outbox.key("ticket"), "minted");
    tx.write(event("TicketMinted", "17")).expect("a good event");
    tx.incr(test_outbox.key("list"), 1);
    let error = tx.commit(&mut connection).await.expect_err("one command fails");
    let RedisCommitError::PartlyApplied { place: 1, replies, .. } = error else { panic!("{error:?}") };
    assert_eq!(replies.values().len(), 2);
    within_timeout("it is delivered", recorder.wait_for(1)).await;
    outbox.shutdown().await;
}

/// The only way in which one of our plain commands can fail. The caller must not believe that the event is stored.
// S1-06, S1-18
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn failed_enqueue_in_a_transaction_is_an_error_of_its_own() {
    for foreign in ["entries", "arrivals"] {
        let outbox = on_one_server(1).await;
        let (writer, mut connection) = (outbox.writer(), outbox.connection.clone());
        let _: () = outbox.run("SET", foreign, "not ours").await;
        let mint = event("TicketMinted", "17");
        let mut tx = writer.begin();
        tx.set(outbox.key("ticket"), "minted");
        tx.write(mint.clone()).expect("a good event");
        let error = tx.commit(&mut connection).await.expect_err("the enqueue fails");
        let RedisCommitError::EventsNotStored { events, replies, .. } = &error else { panic!("{error:?}") };
        assert_eq!((events.as_slice(), replies.values().len()), (std::slice::from_ref(mint.id()), 1));
        assert!(error.to_string().contains("store these events again"), "{error}");
        // The advice in the error works.
        let _: u8 = outbox.run("DEL", foreign, NO_ARGS).await;
        let mut tx = writer.begin();
        tx.write(mint.clone()).expect("a good event");
        tx.commit(&mut connection).await.expect("it commits");
        assert_eq!(count(&outbox.store).await, 1, "{foreign}");
        let (outbox, recorder) = engine(&outbox.store);
        within_timeout("it is delivered", recorder.wait_for(1)).await;
        outbox.shutdown().await;
    }
}

// S1-11: PUBLISH wakes another process.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn write_wakes_the_engine_of_another_process() {
    let outbox = on_one_server(1).await;
    let (relay, recorder) = engine(&outbox.elsewhere().await);
    wait_until("the other process has subscribed", async || {
        let mut count = redis::cmd("PUBSUB");
        count.arg("NUMSUB").arg(format!("{}:wake", outbox.name));
        let (_, n): (String, u64) = count.query_async(&mut outbox.connection.clone()).await.expect("PUBSUB");
        n == 1
    })
    .await;
    within_timeout("it has nothing to do", relay.idle()).await.expect("the store replies");
    outbox.writer().write(event("TicketMinted", "17")).await.expect("it is stored");
    within_timeout("it is delivered without a poll", recorder.wait_for(1)).await;
    relay.shutdown().await;
}

// S1-04, S1-21, T14
#[tokio::test]
#[ignore = "needs a Redis Cluster: cargo xtask test"]
async fn cluster_accepts_a_ticket_and_its_event_in_one_slot_and_refuses_other_slots() {
    let test_outbox = on_a_cluster(6).await;
    let (store, mut connection) = (&test_outbox.store, test_outbox.connection.clone());
    let (outbox, recorder) = engine(store);
    let writer = RedisWriter::new(store, &outbox);
    for n in 0..20 {
        let ticket = format!("ticket-{n}");
        let mut tx = writer.begin();
        tx.set(format!("{}:{ticket}", store.tag(&ticket)), "minted");
        tx.write(event("TicketMinted", &ticket)).expect("a good event");
        tx.commit(&mut connection).await.expect("it commits");
    }
    within_timeout("all are delivered", recorder.wait_for(20)).await;

    let elsewhere =
        (0..).map(|n| n.to_string()).find(|other| store.tag(other) != store.tag("17")).expect("another");
    let mut tx = writer.begin();
    tx.write(event("TicketMinted", "17")).expect("a good event");
    let error = tx.write(event("TicketMinted", &elsewhere)).expect_err("another slot");
    assert!(error.to_string().contains("one transaction for each aggregate"), "{error}");

    let mut tx = writer.begin();
    tx.set(format!("{}:mine", store.tag(&elsewhere)), "minted");
    tx.write(event("TicketMinted", "17")).expect("a good event");
    let error = tx.commit(&mut connection).await.expect_err("another slot");
    assert!(matches!(error, RedisCommitError::RolledBack(_)), "{error:?}");
    assert!(format!("{:?}", std::error::Error::source(&error)).contains("CrossSlot"), "{error:?}");
    outbox.shutdown().await;
    test_outbox.end().await;
}
