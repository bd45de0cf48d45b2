//! The store suite and the destination suite, on the crate's own store and destinations.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::destination::{DestinationCapabilities, Received, Server};
use posthaste::conformance::{Capabilities, Defect, DestinationHarness, Harness, TxEnd};
use posthaste::memory::{MemoryStore, RawRow};
use posthaste::store::Store;
use posthaste::writer::NewRow;
use posthaste::{Admin, Destination, Event, EventId, Outcome, Recorder, StoreError, Timestamp};

struct Memory(MemoryStore);

#[async_trait]
impl Harness for Memory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.0.clone())
    }

    async fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        let mut connection = self.0.connect();
        connection.begin().await?;
        if end == TxEnd::SavepointRolledBack {
            connection.savepoint().await?;
        }
        let seqs = connection.insert(rows).await?;
        if end == TxEnd::SavepointRolledBack {
            connection.rollback_to_savepoint().await?;
        }
        match end {
            TxEnd::Rollback => connection.rollback().await?,
            _ => connection.commit().await.expect("the commit works"),
        }
        Ok(seqs)
    }

    async fn insert_raw(&self, defect: Defect) -> Option<EventId> {
        let good = RawRow::default();
        let row = match defect {
            Defect::BadHeaders => good.with_headers(format!("{{\"a\": [{:?}]}}", Defect::SECRET)),
            Defect::UnknownStatus => good.with_status_code(77),
            Defect::NegativeAttempts => good.with_attempts(-1),
            Defect::FullAttempts => good.with_attempts(i64::MAX),
            Defect::NoPayload => good.without_payload(),
            unknown => panic!("no row has the defect {unknown:?}: add one here"),
        };
        let id = row.id.clone();
        self.0.insert_raw(row).map(|_| id)
    }

    async fn give_again(&self, seq: i64) -> bool {
        self.0.lose_from(seq);
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn close(&self) {}
}

mod store {
    use super::*;
    posthaste::store_conformance!(Memory(MemoryStore::new()));
}

/// Refuses events of the type `Refused`.
struct Recording(Recorder);

#[async_trait]
impl DestinationHarness for Recording {
    fn destination(&self) -> Arc<dyn Destination> {
        Arc::new(self.0.clone())
    }

    async fn received(&self, n: usize) -> Vec<Received> {
        self.0.wait_for(n).await;
        let taken = self.0.deliveries().into_iter().filter(|delivery| delivery.event_type() != "Refused");
        taken.map(|delivery| Received::from(&delivery)).collect()
    }

    fn refused(&self) -> Option<Event> {
        Event::json("Refused", "no").ok()
    }

    fn too_large(&self) -> Option<Event> {
        Event::json("Refused", "too large").ok()
    }

    fn server(&self) -> Option<&dyn Server> {
        None
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {}
}

fn recorder() -> Recorder {
    Recorder::with(|delivery| match delivery.event_type() {
        "Refused" => Outcome::Dead("refused: too many bytes".to_owned()),
        _ => Outcome::done(),
    })
}

mod handler {
    use super::*;
    posthaste::destination_conformance!(Recording(recorder()));
}

mod publisher {
    use super::*;
    posthaste::destination_conformance!(Recording(recorder().publisher(16)));
}
