//! The part of a `Writer` that every driver shares.
//!
//! A driver adds an INSERT and a COMMIT. This module has everything else: hooks, limits, which rows are born leased,
//! receipts, and what follows a commit, a rollback or an unknown outcome. A driver's insert calls
//! [`WriterCore::prepare`], its own statement, then [`Prepared::written`]. A driver's transaction keeps a [`Ledger`].

mod ledger;
mod prepared_rows;
mod receipt;
mod tx;
mod writer_core;

pub use ledger::{Committing, Ledger};
pub use prepared_rows::{NewLease, NewRow, Prepared, Scope};
pub use receipt::Receipt;
pub use tx::Tx;
pub use writer_core::WriterCore;
