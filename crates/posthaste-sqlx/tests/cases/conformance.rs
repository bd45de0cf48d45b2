//! The conformance suite of stores, on a table with any name.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::{Capabilities, Defect, Harness, TxEnd};
use posthaste::store::Store as EngineStore;
use posthaste::writer::NewRow;
use posthaste::{Admin, EventId, StoreError, Timestamp};
use sqlx::Connection as _;

use crate::support::*;

pub(crate) struct StoreHarness {
    store: Store,
    pool: Pool,
    place: Place,
    table: &'static str,
}

impl StoreHarness {
    pub(crate) async fn new(table: &'static str) -> Self {
        let place = Place::new().await;
        let (builder, options) = (place.builder(), place.options());
        Self::on(place, builder, options, table).await
    }

    /// With a connection of its own to the database, as a service has.
    pub(crate) async fn on(
        place: Place,
        builder: StoreBuilder,
        options: Options,
        table: &'static str,
    ) -> Self {
        let store = builder.table(table.parse().expect("a good name")).migrate().connect().await;
        let pool = sqlx::pool::PoolOptions::new().max_connections(4).connect_with(options).await;
        Self { store: store.expect("the store opens"), pool: pool.expect("the pool opens"), place, table }
    }

    async fn insert_and_end(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        let failed = |error| StoreError::backend("the database", error);
        let mut tx = self.pool.begin_with(BEGIN_SQL).await.map_err(failed)?;
        let seqs = match end {
            TxEnd::SavepointRolledBack => {
                let mut savepoint = tx.begin().await.map_err(failed)?;
                let seqs = self.store.insert_rows(&mut savepoint, rows).await?;
                savepoint.rollback().await.map_err(failed)?;
                seqs
            }
            _ => self.store.insert_rows(&mut tx, rows).await?,
        };
        match end {
            TxEnd::Rollback => tx.rollback().await.map_err(failed)?,
            _ => tx.commit().await.map_err(failed)?,
        }
        Ok(seqs)
    }
}

#[async_trait]
impl Harness for StoreHarness {
    fn store(&self) -> Arc<dyn EngineStore> {
        Arc::new(self.store.clone())
    }

    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.store.clone())
    }

    async fn now(&self) -> Timestamp {
        let Some(sql) = CLOCK_SQL else { return Timestamp::now() };
        // A pooler does not allow prepared statements outside a transaction.
        let mut tx = self.pool.begin().await.expect("a transaction");
        let now = sqlx::query_scalar(sql).persistent(false).fetch_one(&mut *tx).await.expect("a clock");
        tx.commit().await.expect("nothing to commit");
        Timestamp::from_micros(now)
    }

    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        self.insert_and_end(rows, end).await
    }

    async fn insert_raw(&self, defect: Defect) -> Option<EventId> {
        let id = EventId::uuid_v7();
        let (column, value) = match defect {
            Defect::BadHeaders => ("headers", format!("'{{\"a\": [{:?}]}}'", Defect::SECRET)),
            Defect::UnknownStatus => ("status", "77".to_owned()),
            Defect::NegativeAttempts => ("attempts", "-1".to_owned()),
            Defect::FullAttempts => ("attempts", MAX_ATTEMPTS.to_string()),
            Defect::NoPayload => ("payload", "NULL".to_owned()),
            unknown => panic!("no row has the defect {unknown:?}: add one here"),
        };
        let (payload, text) = if column == "payload" { ("", "") } else { (", payload", ", '{}'") };
        let sql = format!(
            "INSERT INTO {} (event_id, event_type, {column}{payload}) VALUES ('{id}', 'Raw', {value}{text})",
            self.place.table(self.table)
        );
        run(&self.pool, &sql).await.is_ok().then_some(id)
    }

    async fn give_again(&self, seq: i64) -> bool {
        let delete = format!("DELETE FROM {} WHERE seq = {seq}", self.place.table(self.table));
        for sql in [delete, self.place.next_seq_sql(self.table, seq)] {
            run(&self.pool, &sql).await.expect("the number is free");
        }
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn close(&self) {
        self.pool.close().await;
        self.store.close().await;
        self.place.remove().await;
    }
}
