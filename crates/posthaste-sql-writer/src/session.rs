//! A driver's connection, as the statements of every Writer need it.

use std::collections::HashMap;

use posthaste::writer::NewRow;

use crate::{RowValue, seqs_by_id};

/// A driver's connection with a transaction on it.
pub trait Session: Send {
    /// An error of the driver.
    type Error: Send;

    /// The texts that a query without values returns.
    fn texts(&mut self, text: &str) -> impl Future<Output = Result<Vec<String>, Self::Error>> + Send;

    /// The numbers that a query returns.
    fn numbers(
        &mut self,
        text: &str,
        values: Vec<RowValue<'_>>,
    ) -> impl Future<Output = Result<Vec<i64>, Self::Error>> + Send;

    /// The numbers with a text that a query returns.
    fn pairs(
        &mut self,
        text: &str,
        values: Vec<RowValue<'_>>,
    ) -> impl Future<Output = Result<Vec<(i64, String)>, Self::Error>> + Send;

    /// Runs an INSERT that returns no rows; returns how many it inserted.
    fn execute(
        &mut self,
        text: &str,
        values: Vec<RowValue<'_>>,
    ) -> impl Future<Output = Result<u64, Self::Error>> + Send;

    /// The number of the row that was inserted last.
    fn last_insert_id(&mut self) -> impl Future<Output = Result<Option<i64>, Self::Error>> + Send;
}

/// The `seq` of each row, from what [`Session::pairs`] returned.
pub(crate) fn seqs_of(rows: &[NewRow], written: Vec<(i64, String)>) -> Vec<Option<i64>> {
    let seqs: HashMap<String, i64> = written.into_iter().map(|(seq, id)| (id, seq)).collect();
    seqs_by_id(rows, seqs)
}
