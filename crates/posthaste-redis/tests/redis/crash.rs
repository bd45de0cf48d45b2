//! Servers that are killed, forget their scripts or go silent, under load.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posthaste::admin::{Admin as _, Filter, PageRequest};
use posthaste::store::Store as _;
use posthaste::{Event, Outbox, Recorder, Status};
use posthaste_redis::{RedisCommitError, RedisStore, RedisWriter};
use posthaste_testkit::proxy::BlackHole;
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::{wait_until, within_timeout};
use redis::AsyncCommands as _;

use crate::support::{command, connect, event, open, open_at, recorded, writer_of};

/// Maximum time from a restart to the next delivery.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(15);

/// The service's view of its transactions, by event id.
#[derive(Default)]
struct Journal {
    acknowledged: BTreeSet<String>,
    refused: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

/// A service that mints tickets until `enough` transactions of all services are acknowledged.
async fn mint_until(url: String, writer: RedisWriter, journal: Arc<Mutex<Journal>>, enough: usize) {
    let client = redis::Client::open(url).expect("a good URL");
    let lock = || journal.lock().expect("no panic");
    let mut connection = None;
    while lock().acknowledged.len() < enough {
        if connection.is_none() {
            connection = client.get_multiplexed_async_connection().await.ok();
        }
        let Some(open) = &mut connection else {
            tokio::task::yield_now().await;
            continue;
        };
        let mut tx = writer.begin();
        let mint = Event::builder("TicketMinted").json_text("{}").build().expect("a good event");
        let id = mint.id().to_string();
        tx.set(format!("{{outbox:0}}:mint:{id}"), "minted");
        tx.write(mint).expect("a good event");
        match tx.commit(open).await {
            Ok(_) => _ = lock().acknowledged.insert(id),
            Err(RedisCommitError::Unknown(_)) => {
                lock().unknown.insert(id);
                connection = None;
            }
            Err(RedisCommitError::RolledBack(_)) => {
                lock().refused.insert(id);
                connection = None;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn engine(store: &RedisStore) -> (Outbox, Recorder) {
    let (recorder, routes) = recorded();
    let outbox = Outbox::builder(store.clone(), routes).lease(Duration::from_secs(2));
    let outbox = outbox.poll_interval(Duration::from_millis(100)).hot_lease(Duration::from_secs(2));
    (outbox.start().expect("a good configuration"), recorder)
}

async fn pending(store: &RedisStore) -> Option<u64> {
    let stats = store.stats().await.ok()?;
    Some(stats.new + stats.retry)
}

async fn with_status(store: &RedisStore, status: Option<Status>) -> BTreeMap<String, Status> {
    let mut filter = Filter::default();
    filter.status = status;
    let (mut rows, mut page) = (BTreeMap::new(), PageRequest::first(1000));
    loop {
        let read = store.list(&filter, &page).await.expect("the store replies");
        rows.extend(read.items.iter().map(|row| (row.id.to_string(), row.status)));
        match read.next {
            Some(next) => page = PageRequest::after(next, 1000),
            None => return rows,
        }
    }
}

// T-KILLREDIS, F42, S1-45
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn server_killed_ten_times_during_5000_mints_loses_and_invents_nothing() {
    const MINTS: usize = 5000;
    let mut server = RedisServer::durable(&[]).started().await;
    let url = server.url();
    let (store, elsewhere) = (open(&server).await, open(&server).await);
    let engines = [engine(&store), engine(&elsewhere)];
    let journal = Arc::new(Mutex::new(Journal::default()));
    let writers = [
        RedisWriter::new(&store, &engines[0].0),
        RedisWriter::new(&store, &engines[0].0),
        writer_of(&elsewhere),
    ];
    let minters: Vec<_> = writers
        .map(|writer| tokio::spawn(mint_until(url.clone(), writer, Arc::clone(&journal), MINTS)))
        .into_iter()
        .collect();

    let acknowledged = || journal.lock().expect("no panic").acknowledged.len();
    let delivered = || engines.iter().map(|(_, recorder)| recorder.count()).sum::<usize>();
    let mut longest = Duration::ZERO;
    for round in 1..=10 {
        wait_until("minting continues", async || acknowledged() >= round * MINTS / 11).await;
        server.restart().await;
        let (back, before) = (Instant::now(), delivered());
        wait_until("deliveries continue", async || delivered() > before).await;
        longest = longest.max(back.elapsed());
    }
    for minter in minters {
        within_timeout("the last mints are acknowledged", minter).await.expect("no minter panics");
    }
    wait_until("everything is settled", async || pending(&store).await == Some(0)).await;
    for (outbox, _) in &engines {
        outbox.shutdown().await;
    }

    let delivered: Vec<String> =
        engines.iter().flat_map(|(_, recorder)| recorder.ids()).map(|id| id.to_string()).collect();
    let once: BTreeSet<String> = delivered.iter().cloned().collect();
    let journal = std::mem::take(&mut *journal.lock().expect("no panic"));
    println!(
        "{} acknowledged, {} refused, {} unknown; {} delivered, {} of them twice; recovered within {longest:?}",
        journal.acknowledged.len(),
        journal.refused.len(),
        journal.unknown.len(),
        once.len(),
        delivered.len() - once.len(),
    );
    let lost: Vec<_> = journal.acknowledged.difference(&once).collect();
    assert!(lost.is_empty(), "acknowledged and never delivered: {lost:?}");
    let invented: Vec<_> = once.intersection(&journal.refused).collect();
    assert!(invented.is_empty(), "refused and delivered: {invented:?}");
    let rows = with_status(&store, None).await;
    assert!(rows.values().all(|status| *status == Status::Done));
    assert_eq!(
        rows.into_keys().collect::<BTreeSet<_>>(),
        once,
        "every stored event was delivered, and no other"
    );
    // A ticket without its event, or an event without its ticket, is what this crate must prevent.
    let mut connection = connect(&url).await;
    let minted: Vec<String> = connection.keys("{outbox:0}:mint:*").await.expect("KEYS");
    let minted: BTreeSet<String> =
        minted.iter().map(|key| key["{outbox:0}:mint:".len()..].to_owned()).collect();
    assert_eq!(minted, once, "every mint has its event");
    assert!(longest < RECOVERY_TIMEOUT, "{longest:?}");
}

// S1-05: the source of a script is sent again to a server that does not know it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn flushed_scripts_and_a_restart_between_two_mints_lose_nothing() {
    let mut server = RedisServer::durable(&[]).started().await;
    let store = open(&server).await;
    let (outbox, recorder) = engine(&store);
    let writer = RedisWriter::new(&store, &outbox);
    let mut minted = 0;
    for round in 0..6 {
        let mut connection = connect(&server.url()).await;
        let mut tx = writer.begin();
        tx.set("{outbox:0}:ticket", round);
        tx.write(event("TicketMinted", "17")).expect("a good event");
        tx.commit(&mut connection).await.expect("it commits");
        let _: () = command(&server, "SCRIPT", "FLUSH").await;
        // Outside a transaction an event is stored by a script, which the server no longer knows.
        writer.write(event("TicketSeen", "17")).await.expect("it is stored");
        minted += 2;
        if round % 2 == 1 {
            server.restart().await;
            let claims = async || store.oldest_pending(None).await.is_ok();
            wait_until("the store has reconnected", claims).await;
        }
    }
    within_timeout("all are delivered", recorder.wait_for(minted)).await;
    wait_until("all are settled", async || pending(&store).await == Some(0)).await;
    assert_eq!(with_status(&store, Some(Status::Done)).await.len(), minted);
    outbox.shutdown().await;
}

// F42: no call waits for a connection that has gone silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn silent_connections_are_replaced() {
    let server = RedisServer::durable(&[]).started().await;
    let proxy = BlackHole::before(server.port()).await;
    let (outbox, recorder) = engine(&open_at(proxy.port()).await);
    let writer = writer_of(&open(&server).await);
    writer.write(event("Before", "1")).await.expect("it is stored");
    within_timeout("it is delivered", recorder.wait_for(1)).await;

    proxy.swallow();
    let since = Instant::now();
    writer.write(event("After", "1")).await.expect("it is stored");
    within_timeout("it is delivered on new connections", recorder.wait_for(2)).await;
    let took = since.elapsed();
    println!("recovered within {took:?}");
    assert!(took < RECOVERY_TIMEOUT, "{took:?}");
    outbox.shutdown().await;
}
