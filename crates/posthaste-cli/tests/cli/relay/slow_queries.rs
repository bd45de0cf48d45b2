//! Slow queries: reads must not block operators' changes.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use sqlx::Executor as _;

use super::file;
use super::file_sink::Sink;
use super::process::{Relay, request, retry_until_ok};
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind, block_on};

on_stores!([postgres, mysql][operator_pauses_a_route_while_reads_hang]);

const OUTBOX_PATH: &str = "/api/v1/outboxes/shop";

/// The number of connections that a store has for operators.
const ADMIN_CONNECTIONS: usize = 2;

/// A pause touches other tables than a read of events, and needs no connection that waits for one.
fn operator_pauses_a_route_while_reads_hang(kind: StoreKind) {
    let outbox = Shop::empty(kind);
    let sink = Sink::new();
    let route = format!("\n[[outbox.shop.route]]\nname = \"mail\"\npublish = \"{}\"\n", sink.url("mail"));
    let relay = Relay::start(&file(&sink, &outbox, &route));
    relay.wait_until("/health/ready", |response| response.status == 200);
    let address = relay.address().to_owned();
    let (locked, is_locked) = channel();
    let (release, is_released) = channel();
    thread::scope(|scope| {
        // Dropped at the end of this block, also if the test fails.
        let _release: Sender<()> = release;
        scope.spawn(|| lock_table(&outbox, &locked, is_released));
        is_locked.recv().expect("the table is locked");
        for _ in 0..ADMIN_CONNECTIONS {
            scope.spawn(|| request(&address, "GET", &format!("{OUTBOX_PATH}/stats"), "", ""));
        }
        retry_until_ok("the reads wait in the database", || match waiting(&outbox) {
            ADMIN_CONNECTIONS.. => Ok(()),
            fewer => Err(fewer.to_string()),
        });
        for change in ["pause", "resume"] {
            let response = relay.request("POST", &format!("{OUTBOX_PATH}/routes/mail/{change}"), "", "");
            assert_eq!(response.status, 200, "{change}: {}", response.body);
        }
    });
    relay.stop();
}

/// Locks the table of events until the other side of the channel is dropped.
fn lock_table(outbox: &Shop, locked: &Sender<()>, released: Receiver<()>) {
    block_on(async {
        // The lock is released with its connection.
        let (mut postgres, mut mysql);
        let lock = match outbox.kind {
            StoreKind::Postgres => {
                postgres = outbox.postgres().await;
                postgres.execute("BEGIN; LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE").await.map(drop)
            }
            _ => {
                mysql = outbox.mysql().await;
                mysql.execute("LOCK TABLES outbox_event WRITE").await.map(drop)
            }
        };
        lock.expect("a lock");
        locked.send(()).expect("the test goes on");
        // The channel never carries a message; it only closes.
        let _ = released.recv();
    });
}

/// Number of operators' statements that wait for the table.
fn waiting(outbox: &Shop) -> usize {
    let count = outbox.query(match outbox.kind {
        StoreKind::Postgres => {
            "SELECT count(*)::text FROM pg_locks JOIN pg_stat_activity USING (pid)
             WHERE NOT granted AND relation = 'outbox_event'::regclass AND application_name = 'posthaste'"
        }
        _ => {
            "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.processlist
             WHERE db = DATABASE() AND state LIKE 'Waiting for table%'"
        }
    });
    count.parse().expect("a number")
}
