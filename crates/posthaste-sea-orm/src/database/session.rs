//! Runs the statements of every Writer in a transaction of SeaORM.

use std::borrow::Cow;

use posthaste_sql_writer::{RowValue, Session};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, QueryResult, Statement, Value};

/// A transaction, and the number of the row that it inserted last; 0 before the first.
pub(super) struct WriterSession<'t> {
    tx: &'t DatabaseTransaction,
    last_insert_id: u64,
}

impl<'t> WriterSession<'t> {
    pub(super) fn new(tx: &'t DatabaseTransaction) -> Self {
        Self { tx, last_insert_id: 0 }
    }

    /// Runs a query and reads each row.
    pub(super) async fn rows<T, All: FromIterator<T>>(
        &self,
        text: &str,
        values: Vec<RowValue<'_>>,
        read: impl Fn(&QueryResult) -> Result<T, DbErr>,
    ) -> Result<All, DbErr> {
        self.tx.query_all_raw(self.statement(text, values)).await?.iter().map(read).collect()
    }

    fn statement(&self, text: &str, values: Vec<RowValue<'_>>) -> Statement {
        let values = values.into_iter().map(bound);
        Statement::from_sql_and_values(self.tx.get_database_backend(), text, values)
    }
}

fn bound(value: RowValue<'_>) -> Value {
    match value {
        RowValue::Text(text) => text.map(Cow::into_owned).into(),
        RowValue::Int(int) => int.into(),
        RowValue::Bytes(bytes) => bytes.map(<[u8]>::to_vec).into(),
    }
}

impl Session for WriterSession<'_> {
    type Error = DbErr;

    async fn texts(&mut self, text: &str) -> Result<Vec<String>, DbErr> {
        self.rows(text, Vec::new(), |row| row.try_get_by(0)).await
    }

    async fn numbers(&mut self, text: &str, values: Vec<RowValue<'_>>) -> Result<Vec<i64>, DbErr> {
        self.rows(text, values, |row| row.try_get_by(0)).await
    }

    async fn pairs(&mut self, text: &str, values: Vec<RowValue<'_>>) -> Result<Vec<(i64, String)>, DbErr> {
        self.rows(text, values, |row| Ok((row.try_get_by(0)?, row.try_get_by(1)?))).await
    }

    async fn execute(&mut self, text: &str, values: Vec<RowValue<'_>>) -> Result<u64, DbErr> {
        let inserted = self.tx.execute_raw(self.statement(text, values)).await?;
        if inserted.rows_affected() > 0 {
            self.last_insert_id = inserted.last_insert_id();
        }
        Ok(inserted.rows_affected())
    }

    async fn last_insert_id(&mut self) -> Result<Option<i64>, DbErr> {
        Ok(i64::try_from(self.last_insert_id).ok())
    }
}
