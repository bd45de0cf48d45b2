//! A business table and an outbox table on MySQL and MariaDB, and the ways to write into them.

use std::sync::Arc;
use std::time::Duration;

use posthaste::store::LeaseToken;
use posthaste::{Event, EventId, GLOBAL, Outbox, Store};
use posthaste_sqlx::{MySqlStore, MySqlWriter, TableName};
use sqlx::{MySqlConnection, MySqlPool};

use super::super::bench_store::{BenchTables, BenchWriter, TableFill};
use super::super::full_table::FAR_FUTURE;
use super::super::load::{self, Load};
use super::baseline_relay;
use super::statements::{MySqlQuery, Statements};
use posthaste_stores::OutboxRef;

const LEASE_OWNER: &str = "bench#0123456789abcdef0123456789abcdef";

#[derive(Clone)]
pub(crate) struct MySqlTables {
    pub(super) pool: MySqlPool,
    pub(super) store: MySqlStore,
    pub(super) table: TableName,
    pub(super) statements: Statements,
}

impl MySqlTables {
    async fn insert_business(
        &self,
        connection: &mut MySqlConnection,
        number: u64,
        body: &str,
    ) -> anyhow::Result<()> {
        self.statements.insert_business().bind(i64::try_from(number)?).bind(body).execute(connection).await?;
        Ok(())
    }

    /// As by hand, with what makes a commit certain: whether the row is still there.
    pub(super) async fn hand_written_and_proved(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        self.insert_business(&mut tx, number, body).await?;
        let inserted = event_values(self.statements.insert_event(), body).execute(&mut *tx).await?;
        let present = self.statements.present().bind(inserted.last_insert_id()).fetch_all(&mut *tx).await?;
        anyhow::ensure!(present.len() == 1, "the event is gone");
        tx.commit().await?;
        Ok(())
    }
}

/// The same values as the Writer has for an event with a lease on it.
fn event_values(query: MySqlQuery, body: &str) -> MySqlQuery {
    let query = query.bind(EventId::uuid_v7().as_str().to_owned()).bind(load::EVENT_TYPE).bind(GLOBAL);
    query.bind(body.to_owned()).bind(LEASE_OWNER).bind(LeaseToken::random().as_i64())
}

impl BenchTables for MySqlTables {
    type Writer = MySqlTablesWriter;

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn writer(&self, outbox: &Outbox) -> MySqlTablesWriter {
        MySqlTablesWriter { tables: self.clone(), writer: self.store.writer(outbox) }
    }

    fn outbox_ref(&self) -> Option<OutboxRef> {
        Some(OutboxRef { table: self.table.to_string(), schema: None })
    }

    async fn business(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        self.insert_business(&mut tx, number, body).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn hand_written(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        self.insert_business(&mut tx, number, body).await?;
        event_values(self.statements.insert_event(), body).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn settle_one_by_one(&self, events: u64, load: &Load) -> anyhow::Result<Option<Duration>> {
        let mut connection = self.pool.acquire().await?;
        self.statements.fill(&mut connection, events, (0, 0), (load::EVENT_TYPE, load.body())).await?;
        Ok(Some(
            baseline_relay::one_by_one(&self.pool.connect_options(), &self.statements, events)
                .await?
                .settling,
        ))
    }

    async fn fill(&self, full: TableFill, load: &Load) -> anyhow::Result<bool> {
        let mut connection = self.pool.acquire().await?;
        let later = i64::try_from(FAR_FUTURE.as_secs())?;
        for (rows, kind) in
            [(full.done_rows, (1, 0)), (full.future_rows, (2, later)), (full.pending_rows, (0, 0))]
        {
            let what = (load::EVENT_TYPE, load.body());
            self.statements.fill(&mut connection, rows, kind, what).await?;
        }
        drop(connection);
        self.statements.analyze(&self.pool).await?;
        Ok(true)
    }
}

#[derive(Clone)]
pub(crate) struct MySqlTablesWriter {
    pub(super) tables: MySqlTables,
    pub(super) writer: MySqlWriter,
}

impl BenchWriter for MySqlTablesWriter {
    async fn business_and_event(&self, number: u64, body: &str, event: Event) -> anyhow::Result<()> {
        let mut tx = self.writer.begin(&self.tables.pool).await?;
        self.tables.insert_business(&mut tx, number, body).await?;
        tx.write(event).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn events(&self, events: Vec<Event>) -> anyhow::Result<()> {
        let mut tx = self.writer.begin(&self.tables.pool).await?;
        tx.write_all(events).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn events_singly(&self, events: Vec<Event>) -> anyhow::Result<()> {
        let mut tx = self.writer.begin(&self.tables.pool).await?;
        for event in events {
            tx.write(event).await?;
        }
        tx.commit().await?;
        Ok(())
    }
}
