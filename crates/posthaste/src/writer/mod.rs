//! What every `Writer` shares, whatever its driver.
//!
//! A driver adds an INSERT and a COMMIT. Everything else is here: hooks, limits, which rows are
//! born leased, receipts, and what follows a commit, a rollback or neither. A driver's insert is
//! [`WriterCore::prepare`], its own statement, then [`Prepared::written`]; a driver's transaction
//! keeps a [`Ledger`].

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
