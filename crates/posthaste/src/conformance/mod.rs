//! The suites that every store, every Writer and every destination must pass.
//!
//! Implement [`Harness`] (or [`WriterHarness`], or [`DestinationHarness`]), then write one line in a test file:
//!
//! ```ignore
//! posthaste::store_conformance!(MyHarness::new().await);
//! posthaste::store_conformance!(MyHarness::new().await, #[ignore = "needs a server"]);
//! ```
//!
//! Each case becomes a `#[test]` of its own with a fresh harness, named after its module, such as
//! `purge::old_done_rows_are_deleted`. The store cases pass the time in
//! their requests (`now: Some(t)`), and no case sleeps.

pub mod admin;
mod case_list;
pub mod claim;
pub mod destination;
pub mod diagnose;
pub mod give_up_after;
mod hostile_values;
pub mod lease;
pub mod park;
pub mod purge;
pub mod receipt;
pub mod release;
pub mod renew;
pub mod round_trip;
pub mod row_identity;
pub mod savepoint;
pub mod settle;
mod store_fixture;
pub mod transaction;
pub mod write;
mod writer_fixture;
mod writer_harness;
pub mod writer_hook;
mod writer_script;

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;

pub use destination::{DestinationCapabilities, DestinationHarness};
pub use writer_fixture::Scene;
pub use writer_harness::{WriterCapabilities, WriterHarness};
pub use writer_script::{Elsewhere, End, OwnEnd, SavepointEnd, Script, ScriptError, Step, Way};

use crate::admin::Admin;
use crate::error::StoreError;
use crate::event::EventId;
use crate::store::Store;
use crate::time::Timestamp;
use crate::writer::NewRow;

/// One empty store under test. Every case gets a fresh one.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The store under test, as the engine uses it.
    fn store(&self) -> Arc<dyn Store>;

    /// The same store, as operators use it.
    fn admin(&self) -> Arc<dyn Admin>;

    /// The store's own clock.
    async fn now(&self) -> Timestamp;

    /// Inserts rows with the store's real INSERT in a real transaction, which then ends as given. Returns the rows'
    /// `seq`s; `None` for an id that existed already.
    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError>;

    /// Inserts a committed, due row with this defect, as another program would. `None` if the store refuses such a row.
    async fn insert_raw(&self, defect: Defect) -> Option<EventId>;

    /// Deletes the row with this number and makes the store assign the number to its next row, as a database may do
    /// after it lost the end of its log. Returns `false` if the store never assigns a number twice.
    async fn give_again(&self, seq: i64) -> bool;

    /// What this store can do.
    fn capabilities(&self) -> Capabilities;

    /// Removes everything that the case left behind. Called at its end, even if it failed.
    async fn close(&self);
}

/// How a transaction ends. Exhaustive, because a harness must implement every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxEnd {
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
    /// The insert happened in a savepoint, which is rolled back; then the transaction commits.
    SavepointRolledBack,
}

/// A mistake that another program may make in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// Headers with the text [`Defect::SECRET`] in them that are not a JSON object of text to text.
    BadHeaders,
    /// A status code that is not defined.
    UnknownStatus,
    /// Attempts below zero.
    NegativeAttempts,
    /// Attempts at the largest number that the column holds. Such a row can be read.
    FullAttempts,
    /// No payload.
    NoPayload,
}

impl Defect {
    /// A text in the bad headers, which the reason of the malformed row must not contain.
    pub const SECRET: &'static str = "sEcret";
}

/// What a store can do. A case that needs more prints that it was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Part of a transaction can be rolled back to a savepoint.
    pub savepoints: bool,
    /// There is an archive.
    pub archive: bool,
    /// Rows have a `seq` that grows with each insert, and limits take the oldest rows first. A store that is divided
    /// into shards may mix rows that were inserted at the same moment.
    pub insertion_order: bool,
    /// The lease of a row is apart from its due time, so that a leased row still shows when it became due.
    pub separate_leases: bool,
}

impl Capabilities {
    /// Everything.
    pub const ALL: Self =
        Self { savepoints: true, archive: true, insertion_order: true, separate_leases: true };

    /// The same without savepoints.
    #[must_use]
    pub const fn without_savepoints(self) -> Self {
        Self { savepoints: false, ..self }
    }

    /// The same without an archive.
    #[must_use]
    pub const fn without_archive(self) -> Self {
        Self { archive: false, ..self }
    }

    /// The same without an order of insertion.
    #[must_use]
    pub const fn without_insertion_order(self) -> Self {
        Self { insertion_order: false, ..self }
    }

    /// The same with one time per row: its due time, or the end of its lease.
    #[must_use]
    pub const fn without_separate_leases(self) -> Self {
        Self { separate_leases: false, ..self }
    }
}

/// Runs one case of the store suite. Called by the macro.
#[doc(hidden)]
pub fn run_store<H: Harness>(
    case: &str,
    make: impl Future<Output = H>,
    body: impl AsyncFnOnce(&dyn Harness),
) {
    block_on(case, async {
        let harness = make.await;
        let result = AssertUnwindSafe(body(&harness)).catch_unwind().await;
        harness.close().await;
        result
    });
}

/// Runs one case of the Writer suite. Called by the macro.
#[doc(hidden)]
pub fn run_writer<H: WriterHarness>(
    case: &str,
    make: impl Future<Output = H>,
    body: impl AsyncFnOnce(&dyn WriterHarness),
) {
    block_on(case, async {
        let harness = make.await;
        let result = AssertUnwindSafe(body(&harness)).catch_unwind().await;
        harness.scene().outbox().shutdown().await;
        harness.close().await;
        result
    });
}

/// Runs one case of the destination suite. Called by the macro.
#[doc(hidden)]
pub fn run_destination<H: DestinationHarness>(
    case: &str,
    make: impl Future<Output = H>,
    body: impl AsyncFnOnce(&dyn DestinationHarness),
) {
    block_on(case, async {
        let harness = make.await;
        let result = AssertUnwindSafe(body(&harness)).catch_unwind().await;
        harness.close().await;
        result
    });
}

/// Runs a case on the suite's own runtime, so that a test crate needs no Tokio macros.
fn block_on(case: &str, test: impl Future<Output = std::thread::Result<()>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("{case}: no runtime: {error}"));
    if let Err(panic) = runtime.block_on(test) {
        eprintln!("conformance case {case} failed");
        resume_unwind(panic);
    }
}
