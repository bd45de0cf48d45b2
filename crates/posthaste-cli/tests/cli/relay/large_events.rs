//! Large events of programs that know no limit: the relay delivers all of them with its default settings, and
//! its memory does not grow with them. Each has a server of its own: one that is busy with gibibytes would hold up
//! every other test.

use std::time::Duration;

use posthaste_testkit::proxy::SlowLink;
use posthaste_testkit::server::{MariaDbServer, PostgresServer, RedisServer};
use redis::cmd;
use serde_json::Value;

use super::options;
use super::process::{Relay, retry_until_ok_within};
use crate::shop::{Shop, StoreKind, block_on};

const MIB: usize = 1024 * 1024;

/// What the limit in deploy/kubernetes.yaml leaves some room above.
const MAX_PEAK_BYTES: usize = 200 * MIB;

/// Far longer than it takes: debug builds, two cores, other tests beside it.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(300);

/// The pause before each check: asking without a pause takes most of a small machine from the relay.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How the image and the unit in deploy/ start it. The allocator of glibc keeps large pieces that were freed, for
/// each thread, unless it is told from which size on memory goes back to the system.
const ALLOCATOR: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "1048576");

/// The backlogs that every store is asked for: many events of the largest size that an event of this library has
/// by default, and some that only other programs write.
const BACKLOGS: [(usize, usize); 2] = [(600, MIB), (50, 20 * MIB)];

fn large_backlogs_are_delivered_in_little_memory(make: impl Fn() -> Shop) {
    for (count, bytes) in BACKLOGS {
        let outbox = make();
        write_large(&outbox, count, bytes);
        let options = options(&outbox, &["--publish", "file:///dev/null"]);
        let relay = Relay::start_with(&options, &[ALLOCATOR]);
        wait_until_done(&outbox, count);
        let peak = relay.peak_bytes();
        println!("{count} events of {bytes} bytes: a peak of {} MiB", peak / MIB);
        assert!(peak < MAX_PEAK_BYTES, "{count} events of {bytes} bytes: a peak of {} MiB", peak / MIB);
        relay.stop();
    }
}

/// However long it takes, as long as it goes on.
fn wait_until_done(outbox: &Shop, count: usize) {
    let mut done = 0;
    while done < count {
        done = wait_for_more(outbox, done);
    }
}

/// Returns how many are delivered, when there are more of them.
fn wait_for_more(outbox: &Shop, before: usize) -> usize {
    retry_until_ok_within(DELIVERY_TIMEOUT, "more are delivered", || {
        std::thread::park_timeout(STATUS_INTERVAL);
        let output = outbox.command("status --output json").output().expect("the binary starts");
        // A server that is busy with large rows may have no time for this question.
        let text = || String::from_utf8_lossy(&output.stderr).into_owned();
        let status: Value = serde_json::from_slice(&output.stdout).map_err(|_| text())?;
        assert_eq!(status["dead"], 0, "{status}");
        let done = status["done"].as_u64().map_or(0, |done| done as usize);
        if done > before { Ok(done) } else { Err(status.to_string()) }
    })
}

/// One JSON text of so many bytes in each row, made by the database.
fn write_large(outbox: &Shop, count: usize, bytes: usize) {
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload) ";
    match outbox.kind {
        StoreKind::Sqlite => outbox.sql(&format!(
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})
             {insert} SELECT 'e-' || n, 'Made', '\"' || hex(zeroblob({bytes} / 2)) || '\"' FROM numbers"
        )),
        StoreKind::Postgres => outbox.sql(&format!(
            "{insert} SELECT 'e-' || n, 'Made', '\"' || repeat('x', {bytes}) || '\"' FROM generate_series(1, {count}) n"
        )),
        // A transaction for each row: the log of one has a limit.
        StoreKind::MySql => {
            let row = |n| format!("{insert} VALUES ('e-{n}', 'Made', CONCAT('\"', REPEAT('x', {bytes}), '\"'));");
            outbox.sql(&(1..=count).map(row).collect::<String>());
        }
        StoreKind::Redis => (1..=count).for_each(|n| write_to_redis(outbox, n, bytes)),
    }
}

/// By the two commands that its page names for other programs.
fn write_to_redis(shop: &Shop, n: usize, bytes: usize) {
    let (id, text) = (format!("e-{n}"), "x".repeat(bytes));
    let body = format!(r#"{{"event_type":"Made","payload":"\"{text}\""}}"#);
    shop.redis::<u8>(cmd("HSETNX").arg(shop.key("entries")).arg(&id).arg(body));
    shop.redis::<u8>(cmd("ZADD").arg(shop.key("pending")).arg("NX").arg(0).arg(id));
}

#[test]
fn image_and_unit_set_the_allocator_as_these_tests_do() {
    let (name, value) = ALLOCATOR;
    for file in ["Dockerfile", "posthaste.service"] {
        let path = format!("{}/../../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a file");
        assert!(text.contains(&format!("{name}={value}\n")), "{file}");
    }
}

#[test]
fn large_backlogs_in_sqlite_need_little_memory() {
    large_backlogs_are_delivered_in_little_memory(|| Shop::empty(StoreKind::Sqlite));
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn large_backlogs_in_postgres_need_little_memory() {
    let server = block_on(PostgresServer::start());
    large_backlogs_are_delivered_in_little_memory(|| Shop::empty_on(StoreKind::Postgres, server.url()));
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn large_backlogs_in_mysql_need_little_memory() {
    // As the server of the test run: a packet must hold the largest event.
    let settings = ["--max-allowed-packet=64M", "--innodb-buffer-pool-size=256M"];
    let server = block_on(MariaDbServer::start_with(&settings));
    let empty = || Shop::empty_on(StoreKind::MySql, server.url());
    large_backlogs_are_delivered_in_little_memory(empty);
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn large_backlogs_in_redis_need_little_memory() {
    let server = block_on(RedisServer::new(&[]).started());
    large_backlogs_are_delivered_in_little_memory(|| Shop::empty_on(StoreKind::Redis, server.url()));
}

/// All of it in one claim would take longer than the relay waits for an answer, each time anew.
#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn large_backlog_behind_a_slow_line_is_delivered() {
    const EVENTS: usize = 100;
    const BYTES_PER_SECOND: usize = 20_000_000;
    let server = block_on(PostgresServer::start());
    let shop = Shop::empty_on(StoreKind::Postgres, server.url());
    write_large(&shop, EVENTS, MIB);
    let link = SlowLink::to(shop.host(), BYTES_PER_SECOND);
    let far = shop.with_url(shop.url().replacen(shop.host(), &link.address(), 1));
    let sink = super::Sink::new();
    let settings = "store_timeout = \"3s\"\n\n[[outbox.shop.route]]\npublish = \"file:///dev/null\"\n";
    let relay = Relay::start(&super::file(&sink, &far, settings));
    wait_until_done(&shop, EVENTS);
    relay.stop();
}
