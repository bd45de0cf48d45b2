//! The order service: its table, and one transaction per order that also writes the event.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use posthaste::admin::{Admin, Stats};
use posthaste::config::{PurgeConfig, Retention};
use posthaste::{Event, EventId, Outbox, RetryPolicy};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{SqliteConnection, SqlitePool};

use super::destinations::{DemoDestinations, ORDER_AGGREGATE};
use super::observed_counts::CommitClock;
use super::order_plan::{Order, WritePath};

const CREATE_ORDERS_SQL: &str = "CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL,
    item TEXT,
    cents INTEGER NOT NULL
)";

const INSERT_ORDER_SQL: &str = "INSERT INTO orders (number, event_id, item, cents) VALUES (?, ?, ?, ?)";

/// What a service without the Posthaste library needs to know: this INSERT.
const INSERT_EVENT_SQL: &str = "INSERT INTO outbox_event \
     (event_id, event_type, aggregate_type, aggregate_id, payload) VALUES (?, ?, ?, ?, ?)";

/// An order service on a SQLite file, with an embedded outbox.
#[derive(Debug)]
pub(super) struct Shop {
    pool: SqlitePool,
    store: SqliteStore,
    outbox: Outbox,
    writer: SqliteWriter,
    destinations: Arc<DemoDestinations>,
}

impl Shop {
    /// Opens the file. Pending events of an earlier demo are delivered too.
    pub(super) async fn open(file: &Path, destinations: Arc<DemoDestinations>) -> anyhow::Result<Self> {
        let options = connect_options(file);
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options.clone()).await?;
        sqlx::query(CREATE_ORDERS_SQL).execute(&pool).await?;
        let store = SqliteStore::builder(&options).migrate().connect().await?;
        let outbox = build(&store, &destinations)?;
        let writer = SqliteWriter::new(&store, &outbox);
        Ok(Self { pool, store, outbox, writer, destinations })
    }

    /// Starts the engine.
    pub(super) fn start(&self) -> anyhow::Result<()> {
        Ok(self.outbox.start()?)
    }

    /// The number of the next order.
    pub(super) async fn next_number(&self) -> anyhow::Result<u64> {
        let next: i64 = sqlx::query_scalar("SELECT coalesce(max(number) + 1, 0) FROM orders")
            .fetch_one(&self.pool)
            .await?;
        Ok(u64::try_from(next)?)
    }

    /// Writes the order as its plan says.
    pub(super) async fn take(&self, order: &Order) -> anyhow::Result<()> {
        let event = event_of(order)?;
        let id = event.id().clone();
        let committed = match order.write_path {
            WritePath::Foreign => self.insert_with_plain_sql(order, &event).await,
            _ => self.place(order, event).await,
        };
        match committed.with_context(|| format!("order {} failed", order.number))? {
            true => {
                self.destinations.journal.committed(&id)?;
                self.destinations.tally.committed();
            }
            false => self.destinations.tally.rolled_back(&id),
        }
        Ok(())
    }

    pub(super) async fn stats(&self) -> anyhow::Result<Stats> {
        Ok(self.store.stats().await?)
    }

    /// Whether every event is DONE or DEAD, and the engine holds none.
    pub(super) async fn is_settled(&self) -> anyhow::Result<bool> {
        Ok(self.outbox.held() == 0 && pending(&self.stats().await?) == 0)
    }

    /// Shuts down gracefully.
    pub(super) async fn close(&self) -> anyhow::Result<Stats> {
        self.outbox.shutdown().await;
        let stats = self.stats().await?;
        self.store.close().await;
        self.pool.close().await;
        Ok(stats)
    }

    /// Writes the order and its event in one transaction. Returns whether it was committed.
    async fn place(&self, order: &Order, event: Event) -> anyhow::Result<bool> {
        let id = event.id().clone();
        let mut tx = self.writer.begin(&self.pool).await?;
        insert_order(&mut tx, order, &id).await?;
        tx.write(event).await?;
        if order.write_path == WritePath::RolledBack {
            tx.rollback().await?;
            return Ok(false);
        }
        self.destinations.journal.attempted(&id)?;
        tx.commit().await?;
        Ok(true)
    }

    /// The same with plain SQL, as by a service without the Posthaste library.
    async fn insert_with_plain_sql(&self, order: &Order, event: &Event) -> anyhow::Result<bool> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        insert_order(&mut tx, order, event.id()).await?;
        sqlx::query(INSERT_EVENT_SQL)
            .bind(event.id().as_str())
            .bind(event.event_type())
            .bind(event.aggregate_type())
            .bind(event.aggregate_id())
            .bind(std::str::from_utf8(event.payload())?)
            .execute(&mut *tx)
            .await?;
        self.destinations.journal.attempted(event.id())?;
        self.destinations.tally.starts_waiting(event);
        tx.commit().await?;
        Ok(true)
    }
}

/// Events that are neither DONE nor DEAD.
pub(super) fn pending(stats: &Stats) -> u64 {
    stats.new + stats.retry
}

pub(super) fn connect_options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_secs(10))
}

/// Short intervals, so that a user sees retries, expired leases and DEAD events soon.
fn build(store: &SqliteStore, destinations: &Arc<DemoDestinations>) -> anyhow::Result<Outbox> {
    let retry = RetryPolicy::default()
        .with_max_attempts(4)
        .with_base_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(1));
    let purge = PurgeConfig::default()
        .with_done(Retention::delete_after(Duration::from_secs(600)))
        .with_interval(Duration::from_secs(60));
    Ok(Outbox::builder(store.clone(), destinations.routes())
        .single_node()
        .name("demo")
        .hook(CommitClock(Arc::clone(&destinations.tally)))
        .poll_interval(Duration::from_millis(200))
        .poll_batch(200)
        .retry(retry)
        .lease(Duration::from_secs(2))
        .hot_lease(Duration::from_secs(1))
        .purge(purge)
        .build()?)
}

async fn insert_order(
    connection: &mut SqliteConnection,
    order: &Order,
    event: &EventId,
) -> anyhow::Result<()> {
    sqlx::query(INSERT_ORDER_SQL)
        .bind(i64::try_from(order.number)?)
        .bind(event.as_str())
        .bind(order.body.item.as_deref())
        .bind(i64::try_from(order.body.cents)?)
        .execute(connection)
        .await?;
    Ok(())
}

fn event_of(order: &Order) -> anyhow::Result<Event> {
    let event =
        Event::builder(order.kind.event_type()).aggregate(ORDER_AGGREGATE, order.number).json(&order.body);
    Ok(match order.write_path {
        WritePath::Delayed(delay) => event.deliver_after(delay),
        _ => event,
    }
    .build()?)
}
