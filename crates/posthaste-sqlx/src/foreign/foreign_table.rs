//! Statements on a foreign table, the same for PostgreSQL and MySQL.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use posthaste::store::{Claim, OnDone};
use posthaste::{EventId, StoreError};
use posthaste_sql_writer::TableRef;

use super::byte_budget::{ByteBudget, SplitKeys};
use super::catalogue::Catalogue;
use super::lock_session::{LockSession, OpenSession, SessionGuard};
use super::resolved_layout::{Dialect, ResolvedLayout};
use super::row_key::{AttemptCount, FailedAttempt, ReadRow, RowKey, RowsRead};
use super::server::{Caller, Server};
use super::session::{BindValue, BoundQuery, QueryRow, Session, id, number, text, unreadable};
use super::{Layout, State, columns, write_rights};
use crate::OpenError;
use crate::row::RowReader;

/// Chooses which of the pending keys to read. The first argument is true if the lock of the table was taken just now.
pub(crate) type ChooseKeys<'a> = dyn Fn(bool, Vec<RowKey>) -> Vec<RowKey> + Send + Sync + 'a;

/// A foreign table.
///
/// One session holds the lock of the whole table. Calls reserved for the lock holder run in that session, so the lock
/// exists for as long as the statement runs. While another process holds the lock, these calls return `None` and
/// change nothing. Every write-back changes pending rows only, and only rows that were written at the time that their
/// [`RowKey`] says.
#[derive(Debug)]
pub(crate) struct ForeignTable {
    /// The session that holds the lock, or tries to take it at each claim.
    pub(super) session: LockSession,
    /// The connections for statements that need no lock.
    server: Arc<dyn Server>,
    resolved: ResolvedLayout,
}

impl ForeignTable {
    pub(crate) async fn open(
        server: Arc<dyn Server>,
        table_ref: &TableRef,
        layout: &Layout,
        read_only: bool,
    ) -> Result<Self, OpenError> {
        let (failed, dialect) = (|error| server.explain(error), server.dialect());
        let mut session = server.connect().await.map_err(failed)?;
        let name = table_ref.text(dialect.catalogue.table);
        let catalogue = Catalogue::look_up(&mut *session, &dialect.catalogue, &name).await.map_err(failed)?;
        let Some(catalogue) = catalogue else {
            let (table, server) = (layout.table_name().clone(), server.name().to_owned());
            return Err(OpenError::NoForeignTable { table, server });
        };
        let resolved = ResolvedLayout::new(layout, dialect, table_ref, &catalogue)?;
        if !read_only {
            write_rights::check(&*server, &mut *session, &resolved).await?;
        }
        server.expect_sessions(layout.table_name()).await?;
        let _ = session.close().await;
        Ok(Self { session: LockSession::new(Arc::clone(&server)), server, resolved })
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        self.server.failed(error)
    }

    fn dialect(&self) -> &'static Dialect {
        self.resolved.dialect
    }

    /// The layout, with the types of its columns.
    pub(crate) fn resolved(&self) -> &ResolvedLayout {
        &self.resolved
    }

    /// Takes the lock if it is free, reads up to `max_keys` pending keys, oldest first, and reads the chosen rows as
    /// far as the budget allows. `None` while another process holds the lock.
    pub(crate) async fn claim(
        &self,
        claim: &Claim<'_>,
        max_keys: usize,
        budget: ByteBudget,
        choose: &ChooseKeys<'_>,
    ) -> Result<Option<RowsRead>, StoreError> {
        let mut session = self.session.take().await.map_err(|error| self.failed(error))?;
        let rows = self.claim_in(&mut session.open, claim, max_keys, budget, choose).await;
        session.end(rows).map_err(|error| self.failed(error))
    }

    async fn claim_in(
        &self,
        open: &mut OpenSession,
        claim: &Claim<'_>,
        max_keys: usize,
        budget: ByteBudget,
        choose: &ChooseKeys<'_>,
    ) -> Result<Option<RowsRead>, sqlx::Error> {
        let (session, newly) = (&mut *open.session, !open.leads);
        if newly {
            open.leads = self.ask_for_lock(session, self.dialect().lock).await?;
        }
        if !open.leads {
            return Ok(None);
        }
        let chosen = choose(newly, self.pending(session, max_keys).await?);
        match chosen.is_empty() {
            true => Ok(Some(RowsRead::default())),
            false => self.read(session, claim, budget, chosen).await.map(Some),
        }
    }

    /// Runs one of the lock queries. Returns true if this session holds the lock.
    async fn ask_for_lock(
        &self,
        session: &mut dyn Session,
        question: &'static str,
    ) -> Result<bool, sqlx::Error> {
        let query = BoundQuery::new(question, vec![self.resolved.name_in_catalogue()]);
        Ok(session.number(&query, "leads").await? == 1)
    }

    async fn pending(&self, session: &mut dyn Session, max_keys: usize) -> Result<Vec<RowKey>, sqlx::Error> {
        let (resolved, limit) = (&self.resolved, i64::try_from(max_keys).unwrap_or(i64::MAX));
        let (columns, rest) = (resolved.row_key(), format!("LIMIT {limit}"));
        let text = resolved.oldest_first(&columns, &resolved.is(State::Pending), &rest);
        session.rows(&BoundQuery::new(text, Vec::new()), |row| key_of(row, resolved)).await
    }

    /// Reads the rows of these keys in their order, as far as the budget allows. Rows that no longer exist are left
    /// out. Rows are read one at a time, so that each is in memory only once.
    async fn read(
        &self,
        session: &mut dyn Session,
        claim: &Claim<'_>,
        budget: ByteBudget,
        keys: Vec<RowKey>,
    ) -> Result<RowsRead, sqlx::Error> {
        let mut split = budget.split(keys);
        while let Some(some) = split.next_step() {
            let sizes = self.sizes(session, &some).await?;
            split.measured(some, &sizes);
        }
        let SplitKeys { fitting, bytes, left } = split.end();
        let mut found = self.events(session, claim, &fitting).await?;
        let rows = fitting.into_iter().filter_map(|key| {
            let row = found.remove(&(key.id.clone(), key.written.clone()))?;
            Some((key, row))
        });
        Ok(RowsRead { rows: rows.collect(), bytes, left })
    }

    /// The sizes of those rows that still exist, in bytes.
    async fn sizes(
        &self,
        session: &mut dyn Session,
        keys: &[RowKey],
    ) -> Result<HashMap<EventId, usize>, sqlx::Error> {
        let columns = columns::of_size(&self.resolved);
        let mut sizes = HashMap::new();
        for some in keys.chunks(self.dialect().max_keys) {
            let query = (self.dialect().pending)(&self.resolved, &columns, some);
            let size = |row: &QueryRow| Ok((id(row)?, usize::try_from(number(row, "size")?).unwrap_or(0)));
            sizes.extend(session.rows::<_, Vec<_>>(&query, size).await?);
        }
        Ok(sizes)
    }

    /// Reads those rows that still exist, by their ids, with the times at which they were written.
    async fn events(
        &self,
        session: &mut dyn Session,
        claim: &Claim<'_>,
        keys: &[RowKey],
    ) -> Result<HashMap<(EventId, Option<String>), ReadRow>, sqlx::Error> {
        let columns = columns::to_deliver(&self.resolved);
        let mut events = HashMap::new();
        for some in keys.chunks(self.dialect().max_keys) {
            let query = (self.dialect().pending)(&self.resolved, &columns, some);
            let event = |row: &QueryRow| {
                let now =
                    row.time("store_now").ok().flatten().ok_or_else(|| unreadable("store_now", "a time"))?;
                Ok(((id(row)?, written(row)?), RowReader::new(row).leased(claim, now)))
            };
            events.extend(session.rows::<_, Vec<_>>(&query, event).await?);
        }
        Ok(events)
    }

    /// True if this process still holds the lock.
    pub(crate) async fn leads(&self) -> Result<bool, StoreError> {
        let Some(mut session) = self.leader().await? else { return Ok(false) };
        let leads = self.ask_for_lock(&mut *session.open.session, self.dialect().held).await;
        session.end(leads).map_err(|error| self.failed(error))
    }

    /// The session that holds the lock. `None` if this process does not hold it.
    async fn leader(&self) -> Result<Option<SessionGuard<'_>>, StoreError> {
        let session = self.session.take().await.map_err(|error| self.failed(error))?;
        if session.open.leads {
            return Ok(Some(session));
        }
        session.give_back();
        Ok(None)
    }

    /// Writes back deliveries. Returns the events whose rows are now marked as delivered. Needs no lock: a delivery
    /// counts from any process.
    pub(crate) async fn settle_delivered(
        &self,
        keys: &[RowKey],
        on_done: OnDone,
    ) -> Result<HashSet<EventId>, StoreError> {
        let set = self.resolved.set_delivered(on_done);
        self.server.settle_delivered(&self.resolved, set.as_deref(), keys).await
    }

    /// Runs the statement of a settlement on no row, to find out whether the server can be reached and accepts writes.
    pub(crate) async fn write_nothing(&self) -> Result<(), StoreError> {
        self.change(Caller::Engine, self.resolved.write_nothing(), Vec::new()).await.map(drop)
    }

    /// Counts failed attempts. Decides by the count in the table, not by the count in memory, which rows are given up.
    pub(crate) async fn count_failures(
        &self,
        failures: &[FailedAttempt],
    ) -> Result<Option<HashMap<EventId, AttemptCount>>, StoreError> {
        let Some(mut session) = self.leader().await? else { return Ok(None) };
        let counted = self.server.count_failures(&mut *session.open.session, &self.resolved, failures).await;
        session.end(counted).map(Some).map_err(|error| self.failed(error))
    }

    /// Gives up rows, each with its reason. Returns those that were pending.
    pub(crate) async fn give_up(
        &self,
        rows: &[(RowKey, String)],
    ) -> Result<Option<HashSet<EventId>>, StoreError> {
        let Some(mut session) = self.leader().await? else { return Ok(None) };
        let given_up = self.server.give_up(&mut *session.open.session, &self.resolved, rows).await;
        session.end(given_up).map(Some).map_err(|error| self.failed(error))
    }

    /// Runs a statement that only reads, and returns its rows.
    pub(crate) async fn query(
        &self,
        caller: Caller,
        text: String,
        values: Vec<BindValue>,
    ) -> Result<Vec<Box<QueryRow>>, StoreError> {
        self.server.query(caller, &BoundQuery::new(text, values)).await
    }

    /// Changes rows for an operator or a purge. Returns the number of rows.
    pub(crate) async fn change(
        &self,
        caller: Caller,
        text: String,
        values: Vec<BindValue>,
    ) -> Result<u64, StoreError> {
        self.server.change(caller, &BoundQuery::new(text, values)).await
    }

    pub(crate) async fn close(&self) {
        self.session.close().await;
        self.server.close().await;
    }
}

/// Reads a key from the columns of [`ResolvedLayout::row_key`].
pub(super) fn key_of(row: &QueryRow, resolved: &ResolvedLayout) -> Result<RowKey, sqlx::Error> {
    let columns = resolved.layout.key_columns().len();
    let parts = (0..columns).map(|n| text(row, &format!("k{n}"))).collect::<Result<_, _>>()?;
    Ok(RowKey { id: id(row)?, parts, written: written(row)? })
}

fn written(row: &QueryRow) -> Result<Option<String>, sqlx::Error> {
    let written = row.text("written").map_err(|wanted| unreadable("written", wanted))?;
    Ok(written.map(str::to_owned))
}
