//! Tests of the table lock on both servers: the lock of a machine that vanished becomes free, and operators delay
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste::store::{Claim, Owner, Purge, Purgeable, Settle, Settled, Settlement, Store as _, Verdict};
use posthaste_sql_writer::TableRef;
use posthaste_testkit::proxy::BlackHole;
use tokio::time::{interval, timeout};

use super::byte_budget::ByteBudget;
use super::foreign_table::ForeignTable;
use super::row_key::RowKey;
use super::server::{Caller, Server};
use super::session::{BoundQuery, QueryRow, Session};
use super::{ForeignTableStore, Layout};
use crate::SchemaName;

/// A schema or database of one test, with a connection as its owner.
pub(super) struct TestPlace {
    pub(super) owner: Box<dyn Session>,
    pub(super) schema: Option<SchemaName>,
    /// Connects to the server, or to a proxy before it on this port.
    pub(super) connect: Box<dyn Fn(Option<u16>) -> Arc<dyn Server>>,
    pub(super) port: u16,
    /// The statement that the owner runs at the end.
    pub(super) drop: String,
}

impl TestPlace {
    /// Adds a table with these statements.
    pub(super) async fn with(mut self, statements: &[&str]) -> Self {
        for text in statements.iter().flat_map(|text| text.split_terminator(';')) {
            if !text.trim().is_empty() {
                run(&mut *self.owner, text).await;
            }
        }
        self
    }

    pub(super) async fn open(&self, layout: Layout, port: Option<u16>) -> ForeignTable {
        let table_ref = TableRef::new(layout.table_name().clone());
        let table_ref = match &self.schema {
            Some(schema) => table_ref.in_schema(schema.clone()),
            None => table_ref,
        };
        let server = (self.connect)(port);
        ForeignTable::open(server, &table_ref, &layout, false).await.expect("the table opens")
    }

    pub(super) async fn drop(mut self) {
        run(&mut *self.owner, &self.drop).await;
    }
}

pub(super) async fn run(session: &mut dyn Session, text: &str) {
    session.execute(&BoundQuery::new(text, Vec::new())).await.expect("the server does it");
}

/// The value in the column `shown`.
pub(super) async fn shown(session: &mut dyn Session, text: &str) -> Option<String> {
    let query = BoundQuery::new(text, Vec::new());
    let read = |row: &QueryRow| Ok(row.text("shown").ok().flatten().map(str::to_owned));
    let shown: Vec<Option<String>> = session.rows(&query, read).await.expect("a result");
    shown.into_iter().next().flatten()
}

fn claim(owner: &Owner) -> Claim<'_> {
    Claim::new(owner, Duration::from_secs(30), 1)
}

/// Claims, and returns whether this table got the lock.
async fn leads(table: &ForeignTable) -> bool {
    let owner = Owner::from("tester");
    let claim = claim(&owner);
    table.claim(&claim, 1, ByteBudget::new(usize::MAX), &|_, keys| keys).await.expect("a claim").is_some()
}

/// Waits until this table gets the lock.
async fn takes_over(table: &ForeignTable) {
    let took_over = async {
        let mut look = interval(Duration::from_millis(50));
        while !leads(table).await {
            look.tick().await;
        }
    };
    timeout(Duration::from_secs(20), took_over).await.expect("it takes over");
}

/// The server ends the session with the lock when its machine is silent for longer than `limit` shows. `sooner` makes
/// that one second. A server without such a limit shows nothing.
pub(super) async fn lock_of_a_silent_leader_is_free_again(
    mut place: TestPlace,
    limit: &str,
    expected: &str,
    sooner: &'static str,
) {
    let proxy = BlackHole::before(place.port).await;
    let first = place.open(Layout::debezium(), Some(proxy.port())).await;
    let second = place.open(Layout::debezium(), None).await;
    assert!(leads(&first).await && !leads(&second).await);
    if shown(&mut *place.owner, limit).await.is_some() {
        let mut guard = first.session.take().await.expect("a session");
        assert_eq!(shown(&mut *guard.open.session, limit).await.as_deref(), Some(expected));
        // One second instead of one minute.
        guard.open.session.execute_raw(sooner).await.expect("a setting");
        guard.give_back();
        proxy.swallow();
        takes_over(&second).await;
    }
    second.close().await;
    place.drop().await;
}

/// A key is used again after the keys were read and before the rows are read. The new row must not be taken for the old
/// one.
pub(super) async fn row_written_at_another_time_is_not_read(place: TestPlace) {
    let table = place.open(Layout::order_service(), None).await;
    let owner = Owner::from("tester");
    for (written, rows) in [(Some("2000-01-01 00:00:00"), 0), (None, 1)] {
        let choose = |_, mut keys: Vec<RowKey>| {
            let written = written.map(str::to_owned);
            keys.iter_mut().for_each(|key| key.written = written.clone().or(key.written.take()));
            keys
        };
        let read =
            table.claim(&claim(&owner), 1, ByteBudget::new(usize::MAX), &choose).await.expect("a claim");
        assert_eq!(read.expect("the lock").rows.len(), rows, "{written:?}");
    }
    table.close().await;
    place.drop().await;
}

/// With a pending row in the table, the engine and the changes of operators continue while more operators run this
/// query than there are connections for them.
pub(super) async fn slow_queries_block_nothing(place: TestPlace, question: &str) {
    let store = ForeignTableStore::new(place.open(Layout::order_service(), None).await, true);
    let ask = || store.table().query(Caller::Operator, question.to_owned(), Vec::new());
    let questions = join_all((0..8).map(|_| ask()));
    let work = async {
        let owner = Owner::from("tester");
        let claimed = store.claim(&claim(&owner)).await.expect("a claim");
        assert!(store.oldest_pending(None).await.expect("the engine's own question").is_some());
        let settlements = [Settlement::new(claimed.events[0].lease.clone(), Verdict::Done)];
        assert_eq!(
            store.settle(&Settle::new(&owner, &settlements)).await.expect("a settlement"),
            [Settled::Done]
        );
        let purge = Purge::new(Purgeable::Done, Duration::ZERO, 1);
        assert_eq!(store.purge_batch(&purge).await.expect("a purge of the engine's"), 1);
        let purged = posthaste::Admin::purge(&store, &purge, "ann").await;
        assert_eq!(purged.expect("an operator's change"), 0);
    };
    // The queries start first: a statement after them gets none of their connections before they end.
    tokio::select! {
        biased;
        _ = questions => panic!("the questions are slower than everything else"),
        () = work => {}
    }
    store.close().await;
    place.drop().await;
}
