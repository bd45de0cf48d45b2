//! `Session`: what statements shared by several Writers need from a driver's connection.

use std::collections::HashMap;

use posthaste::writer::NewRow;

use crate::{RowValue, seqs_by_id};

/// A connection of a driver with an open transaction.
pub trait Session: Send {
    /// The error type of the driver.
    type Error: Send;

    /// Runs a query without values; returns its text column.
    fn texts(&mut self, text: &str) -> impl Future<Output = Result<Vec<String>, Self::Error>> + Send;

    /// Runs a query; returns its number column.
    fn numbers(
        &mut self,
        text: &str,
        values: Vec<RowValue<'_>>,
    ) -> impl Future<Output = Result<Vec<i64>, Self::Error>> + Send;

    /// Runs a query; returns its two columns, a number and a text.
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

    /// The number that the database gave to the row inserted last on this connection.
    fn last_insert_id(&mut self) -> impl Future<Output = Result<Option<i64>, Self::Error>> + Send;
}

/// The `seq` of each row, given the result of [`Session::pairs`].
pub(crate) fn seqs_of(rows: &[NewRow], written: Vec<(i64, String)>) -> Vec<Option<i64>> {
    let seqs: HashMap<String, i64> = written.into_iter().map(|(seq, id)| (id, seq)).collect();
    seqs_by_id(rows, seqs)
}
