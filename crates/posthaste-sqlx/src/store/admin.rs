//! Operator calls on a store: statistics, lists, replays, purges, pauses and the audit.

use std::ops::DerefMut;

use async_trait::async_trait;
use posthaste::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, DeadGroup, Filter, Finding, Page, PageRequest, Replay, Stats,
    Tolerance,
};
use posthaste::store::Purge;
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError};

use super::Dialect;
use super::SqlStore;
use super::backlog::{BacklogDialect, read_backlog};
use super::purge::PurgeDialect;
use super::stats::read_stats;
use crate::filter::{Conditions, FilterDialect};
use crate::page::cut_page;
use crate::queries::SqlQuery;
use crate::row::{ReadValues, detail, view};
use crate::sql::{self, Sql};

/// The SQL of one database for operator calls.
pub(crate) trait AdminDialect: FilterDialect + PurgeDialect + BacklogDialect {
    /// The columns of a row that an operator sees.
    const ROW_COLUMNS: &'static str;
    /// One event by its id: from the table, and from the archive.
    const GET: [&'static str; 2];
    /// Binds the name for events without an aggregate type, and a limit.
    const DEAD_GROUPS: &'static str;
    /// Binds the actor, the action, its target, and the number of rows.
    const NOTE: &'static str;
    /// Binds a route.
    const RESUME: &'static str;
    /// Binds the `seq` before which to read, and a limit.
    const AUDIT: &'static str;
    /// Locks the rows that a query finds. Skips rows that another transaction has locked.
    const FOR_UPDATE: &'static str;

    fn rows_affected(result: &Self::QueryResult) -> u64;

    /// Pauses a route. Changes no row if it is paused already.
    fn pause(sql: &Sql, route: &str, actor: &str) -> SqlQuery<Self>;

    /// Makes DEAD rows NEW. Returns their number.
    fn revive(
        store: &SqlStore<Self>,
        connection: &mut Self::Connection,
        seqs: &[i64],
        forget_progress: bool,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// A connection for one operator call.
    type Session: DerefMut<Target = Self::Connection> + Send;

    fn open_session(
        connections: &Self::Connections,
        access: Access,
    ) -> impl Future<Output = sqlx::Result<Self::Session>> + Send;

    /// Commits if the work succeeded.
    fn close_session<T: Send>(
        session: Self::Session,
        result: sqlx::Result<T>,
    ) -> impl Future<Output = sqlx::Result<T>> + Send;

    /// Waits, and returns true if the call is to be tried again after this many tries.
    fn wait_before_retry(
        _connections: &Self::Connections,
        _error: &sqlx::Error,
        _tries: u32,
    ) -> impl Future<Output = bool> + Send {
        async { false }
    }
}

/// The kind of an operator call. Changes have their own connections, because a pause must not wait for queries about a
/// large table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// In a transaction, with a durable commit.
    Write,
}

#[async_trait]
impl<D: Dialect> Admin for SqlStore<D> {
    async fn stats(&self) -> Result<Stats, StoreError> {
        self.read(async |connection| read_stats::<D>(self.sql(), connection).await).await
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        let limit = limit.min(PageRequest::MAX_LIMIT);
        self.read(async |connection| read_backlog::<D>(self.sql(), connection, by, limit).await).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        self.read(async |connection| {
            let query = Conditions::new::<D>(filter).query::<D>(self.sql(), "count(*)", "");
            D::fetch_one(query, connection).await?.count_at(0)
        })
        .await
    }

    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        self.read(async |connection| {
            // One more than the limit shows whether there is another page.
            let tail = format!(" ORDER BY o.seq LIMIT {}", limit + 1);
            let conditions = Conditions::new::<D>(filter).after(page.after);
            let rows =
                D::fetch_all(conditions.query::<D>(self.sql(), D::ROW_COLUMNS, &tail), connection).await?;
            Ok(cut_page(rows.iter().map(view).collect(), limit, |row| row.seq))
        })
        .await
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        self.read(async |connection| {
            for statement in D::GET {
                let query = D::bind_text(self.sql().query(statement), D::text(id.as_str()));
                if let Some(row) = D::fetch_optional(query, connection).await? {
                    return Ok(Some(detail(&row)));
                }
            }
            Ok(None)
        })
        .await
    }

    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        let limit = limit.min(PageRequest::MAX_LIMIT);
        self.read(async |connection| {
            D::read_in_order(connection).await?;
            let bind = |query| D::bind_text(query, GLOBAL.to_owned());
            let query = D::limited(self.sql(), D::DEAD_GROUPS, bind, limit);
            D::fetch_all(query, connection).await?.iter().map(dead_group).collect()
        })
        .await
    }

    async fn replay(&self, id: &EventId, replay: &Replay<'_>) -> Result<bool, StoreError> {
        let replayed = self.revive(&Filter::id(id.clone()), 1, replay, id.to_string()).await?;
        Ok(replayed == 1)
    }

    async fn replay_all(
        &self,
        filter: &Filter,
        limit: usize,
        replay: &Replay<'_>,
    ) -> Result<u64, StoreError> {
        self.revive(filter, limit, replay, filter.to_string()).await
    }

    async fn discard(&self, filter: &Filter, limit: usize, actor: &str) -> Result<u64, StoreError> {
        let action = Action { actor, name: "discard", target: filter.to_string() };
        self.act(action, async |connection| {
            let seqs = self.find_dead(connection, filter, limit).await?;
            D::delete(self.sql(), connection, &seqs).await?;
            Ok(seqs.len() as u64)
        })
        .await
    }

    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        if purge.archive {
            D::prepare_archive(self).await;
        }
        let action = Action { actor, name: "purge", target: purge.to_string() };
        self.act(action, async |connection| D::purge_in(self.sql(), connection, purge).await).await
    }

    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "pause", target: route.to_owned() };
        self.change_route(action, || D::pause(self.sql(), route, actor)).await
    }

    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "resume", target: route.to_owned() };
        self.change_route(action, || D::bind_text(self.sql().query(D::RESUME), D::text(route))).await
    }

    async fn diagnose(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        D::diagnose(self, tolerance).await
    }

    async fn audit(&self, page: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        self.read(async |connection| {
            let bind = |query| D::bind_int(query, page.after.unwrap_or(i64::MAX));
            let rows = D::fetch_all(D::limited(self.sql(), D::AUDIT, bind, limit + 1), connection).await?;
            let entries = rows.iter().map(audit_entry).collect::<Result<Vec<_>, _>>()?;
            Ok(cut_page(entries, limit, |entry| entry.seq))
        })
        .await
    }
}

/// An entry for the audit.
struct Action<'a> {
    actor: &'a str,
    name: &'static str,
    target: String,
}

impl<D: AdminDialect> SqlStore<D> {
    pub(crate) async fn read<T: Send>(
        &self,
        work: impl AsyncFnOnce(&mut D::Connection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        self.call(Access::Read, work).await
    }

    pub(crate) async fn call<T: Send>(
        &self,
        access: Access,
        work: impl AsyncFnOnce(&mut D::Connection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            let result = self.try_call(access, work.clone()).await;
            match result {
                Err(error) if D::wait_before_retry(self.connections(), &error, tries).await => tries += 1,
                result => return result.map_err(|error| self.failed(error)),
            }
        }
    }

    async fn try_call<T: Send>(
        &self,
        access: Access,
        work: impl AsyncFnOnce(&mut D::Connection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let mut session = D::open_session(self.connections(), access).await?;
        let result = work(&mut session).await;
        D::close_session(session, result).await
    }

    /// Changes rows and writes the audit entry in one transaction. A change of no row is not recorded.
    async fn act(
        &self,
        action: Action<'_>,
        work: impl AsyncFnOnce(&mut D::Connection) -> sqlx::Result<u64> + Clone,
    ) -> Result<u64, StoreError> {
        self.call(Access::Write, async |connection| {
            let rows = work(&mut *connection).await?;
            if rows > 0 {
                let texts = [action.actor, action.name, &action.target];
                let bind = |query, text: &str| D::bind_text(query, D::text(text));
                let query = texts.into_iter().fold(self.sql().query(D::NOTE), bind);
                D::execute(D::bind_clock(D::bind_int(query, rows.cast_signed())), connection).await?;
            }
            Ok(rows)
        })
        .await
    }

    async fn change_route(
        &self,
        action: Action<'_>,
        query: impl Fn() -> SqlQuery<D> + Send + Sync,
    ) -> Result<bool, StoreError> {
        let work = async |connection: &mut D::Connection| {
            Ok(D::rows_affected(&D::execute(query(), connection).await?))
        };
        let changed = self.act(action, work).await?;
        self.forget_cached_state();
        Ok(changed == 1)
    }

    /// The matching DEAD rows, oldest first, locked.
    async fn find_dead(
        &self,
        connection: &mut D::Connection,
        filter: &Filter,
        limit: usize,
    ) -> sqlx::Result<Vec<i64>> {
        let Some(conditions) = Conditions::dead::<D>(filter) else { return Ok(Vec::new()) };
        let tail = format!(" ORDER BY o.seq LIMIT {}{}", sql::limit(limit), D::FOR_UPDATE);
        let rows = D::fetch_all(conditions.query::<D>(self.sql(), "o.seq", &tail), connection).await?;
        rows.iter().map(|row| row.int_at(0)).collect()
    }

    async fn revive(
        &self,
        filter: &Filter,
        limit: usize,
        replay: &Replay<'_>,
        target: String,
    ) -> Result<u64, StoreError> {
        let action = Action { actor: replay.actor, name: "replay", target };
        let work = async |connection: &mut D::Connection| {
            let seqs = self.find_dead(connection, filter, limit).await?;
            D::revive(self, connection, &seqs, replay.forget_progress).await
        };
        let revived = self.act(action, work).await?;
        if revived > 0 {
            self.notify_engine();
        }
        Ok(revived)
    }
}

fn dead_group<R: ReadValues>(row: &R) -> sqlx::Result<DeadGroup> {
    let text = |index| Ok::<_, sqlx::Error>(row.text_at(index)?.unwrap_or_default());
    let group = DeadGroup::new(text(0)?, text(1)?, text(2)?);
    Ok(group.with_deaths(row.count_at(3)?, row.time_at(4)?, row.time_at(5)?))
}

/// Columns: `seq`, `at`, `actor`, `action`, `target`, `rows`.
fn audit_entry<R: ReadValues>(row: &R) -> sqlx::Result<AuditEntry> {
    let text = |index| Ok::<_, sqlx::Error>(row.text_at(index)?.unwrap_or_default());
    let at = row.time_at(1)?.unwrap_or_default();
    Ok(AuditEntry::new(row.int_at(0)?, at, text(2)?, text(3)?, text(4)?, row.count_at(5)?))
}
