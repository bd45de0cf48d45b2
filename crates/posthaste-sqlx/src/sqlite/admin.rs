//! The operator's door.

use async_trait::async_trait;
use posthaste::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, DeadGroup, Filter, Finding, Page, PageRequest, Replay, Stats,
    Tolerance,
};
use posthaste::store::Purge;
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::SqliteStore;
use super::backlog;
use super::diagnose;
use super::filter::Conditions;
use super::purge::purge_in;
use super::row::{event_columns, row_columns};
use super::stats;
use super::value::{self, lossy};
use crate::page::cut_page;
use crate::row::{detail, view};

const GET: &str =
    concat!("SELECT ", row_columns!(), ", ", event_columns!(), r#" FROM "{table}" WHERE event_id = ?1"#);

const GET_ARCHIVED: &str = concat!(
    "SELECT ",
    row_columns!(),
    ", ",
    event_columns!(),
    r#" FROM "{table}_archive" WHERE event_id = ?1 ORDER BY seq DESC LIMIT 1"#
);

const DEAD_GROUPS: &str = r#"SELECT
  coalesce(aggregate_type, ?2), event_type, coalesce(substr(last_error, 1, 200), ''),
  count(*) AS total, min(done_at), max(done_at)
FROM (SELECT * FROM "{table}" INDEXED BY "{table}_dead" WHERE status = 3 ORDER BY seq DESC LIMIT 10000)
GROUP BY 1, 2, 3 ORDER BY total DESC, 2, 3 LIMIT ?1"#;

const REVIVE: &str = r#"UPDATE "{table}" SET status = 0, available_at = ?2, attempts = 0, deferrals = 0,
  lost_leases = 0, replays = replays + 1, last_error = NULL, done_at = NULL, parked = NULL,
  put_off_since = NULL, put_off_limit = NULL, locked_by = NULL, locked_at = NULL, lease_token = 0, progress = iif(?3, NULL, progress)
WHERE seq IN (SELECT value FROM jsonb_each(?1)) AND status = 3"#;

const NOTE: &str =
    r#"INSERT INTO "{table}_audit" (at, actor, action, target, rows) VALUES (?1, ?2, ?3, ?4, ?5)"#;

const PAUSE: &str = r#"INSERT INTO "{table}_control" (route, paused_at, paused_by) VALUES (?1, ?2, ?3)
ON CONFLICT (route) DO NOTHING"#;

const RESUME: &str = r#"DELETE FROM "{table}_control" WHERE route = ?1"#;

const AUDIT: &str = r#"SELECT seq, at, actor, action, target, rows FROM "{table}_audit"
WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2"#;

#[async_trait]
impl Admin for SqliteStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let now = Timestamp::now();
        let oldest_pending = self.oldest_pending_at(now).await?;
        let mut stats = self.read(async |connection| stats::read(self.sql(), connection, now).await).await?;
        stats.oldest_pending = oldest_pending;
        Ok(stats)
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        self.read(async |connection| backlog::read(self.sql(), connection, by, limit).await).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let conditions = Conditions::new(filter);
        self.read(async |connection| {
            let row = conditions.query(self.sql(), "count(*)", "").fetch_one(connection).await?;
            row.try_get(0)
        })
        .await
    }

    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        let conditions = Conditions::new(filter).after(page.after);
        self.read(async |connection| {
            let query = conditions.query(self.sql(), row_columns!(), " ORDER BY seq LIMIT ?");
            // One more than asked for shows whether there is another page.
            let rows = query.bind(value::limit(limit) + 1).fetch_all(connection).await?;
            Ok(cut_page(rows.iter().map(view).collect(), limit, |row| row.seq))
        })
        .await
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        self.read(async |connection| {
            for statement in [GET, GET_ARCHIVED] {
                let query = self.sql().query(statement).bind(id.as_str().to_owned());
                if let Some(row) = query.fetch_optional(&mut *connection).await? {
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
            let query = self.sql().query(DEAD_GROUPS).bind(value::limit(limit)).bind(GLOBAL);
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(dead_group).collect()
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
            super::purge::delete(self.sql(), connection, &seqs).await?;
            Ok(seqs.len() as u64)
        })
        .await
    }

    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        let action = Action { actor, name: "purge", target: purge.to_string() };
        self.act(action, async |connection| purge_in(self.sql(), connection, purge).await).await
    }

    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "pause", target: route.to_owned() };
        let paused = self.act(action, async |connection| {
            let query = self.sql().query(PAUSE).bind(route.to_owned());
            let query = query.bind(Timestamp::now().as_micros()).bind(actor.to_owned());
            Ok(query.execute(connection).await?.rows_affected())
        });
        let paused = paused.await?;
        self.forget_cached_state();
        Ok(paused == 1)
    }

    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "resume", target: route.to_owned() };
        let resumed = self.act(action, async |connection| {
            let query = self.sql().query(RESUME).bind(route.to_owned());
            Ok(query.execute(connection).await?.rows_affected())
        });
        let resumed = resumed.await?;
        self.forget_cached_state();
        Ok(resumed == 1)
    }

    async fn diagnose(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        diagnose::findings(self, tolerance).await
    }

    async fn audit(&self, page: &PageRequest) -> Result<Page<AuditEntry>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        self.read(async |connection| {
            let query =
                self.sql().query(AUDIT).bind(page.after.unwrap_or(i64::MAX)).bind(value::limit(limit) + 1);
            let rows = query.fetch_all(connection).await?;
            let entries = rows.iter().map(audit_entry).collect::<Result<Vec<_>, _>>()?;
            Ok(cut_page(entries, limit, |entry| entry.seq))
        })
        .await
    }
}

/// What goes into the audit.
struct Action<'a> {
    actor: &'a str,
    name: &'static str,
    target: String,
}

impl SqliteStore {
    pub(super) async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let answer = async {
            let mut connection = self.connections().reader().await?;
            work(&mut connection).await
        };
        answer.await.map_err(|error| self.failed(error))
    }

    /// Changes rows and notes who did it, in one transaction; a change of nothing is not noted.
    async fn act(
        &self,
        action: Action<'_>,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<u64, sqlx::Error>,
    ) -> Result<u64, StoreError> {
        let mut tx = self.connections().begin().await?;
        let rows = work(&mut tx).await.map_err(|error| self.failed(error))?;
        if rows > 0 {
            let query = self.sql().query(NOTE).bind(Timestamp::now().as_micros());
            let query = query.bind(action.actor.to_owned()).bind(action.name).bind(action.target);
            query.bind(rows as i64).execute(&mut *tx).await.map_err(|error| self.failed(error))?;
        }
        tx.commit().await.map_err(|error| self.failed(error))?;
        Ok(rows)
    }

    /// The DEAD rows that match, oldest first.
    async fn find_dead(
        &self,
        connection: &mut SqliteConnection,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<i64>, sqlx::Error> {
        let Some(conditions) = Conditions::dead(filter) else { return Ok(Vec::new()) };
        let query = conditions.query(self.sql(), "seq", " ORDER BY seq LIMIT ?");
        let rows = query.bind(value::limit(limit)).fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    async fn revive(
        &self,
        filter: &Filter,
        limit: usize,
        replay: &Replay<'_>,
        target: String,
    ) -> Result<u64, StoreError> {
        let action = Action { actor: replay.actor, name: "replay", target };
        let replayed = self.act(action, async |connection| {
            let seqs = self.find_dead(connection, filter, limit).await?;
            let query = self.sql().query(REVIVE).bind(value::seqs(&seqs));
            let query = query.bind(Timestamp::now().as_micros()).bind(replay.forget_progress);
            Ok(query.execute(connection).await?.rows_affected())
        });
        let replayed = replayed.await?;
        if replayed > 0 {
            self.notify_due();
        }
        Ok(replayed)
    }
}

fn dead_group(row: &SqliteRow) -> Result<DeadGroup, sqlx::Error> {
    // A foreign program may have left anything there; a group without its times is still one.
    let time = |index: usize| row.try_get(index).ok().flatten().map(Timestamp::from_micros);
    let group = DeadGroup::new(lossy(row, 0)?, lossy(row, 1)?, lossy(row, 2)?);
    Ok(group.with_deaths(row.try_get(3)?, time(4), time(5)))
}

fn audit_entry(row: &SqliteRow) -> Result<AuditEntry, sqlx::Error> {
    Ok(AuditEntry::new(
        row.try_get("seq")?,
        Timestamp::from_micros(row.try_get("at")?),
        row.try_get("actor")?,
        row.try_get("action")?,
        row.try_get("target")?,
        row.try_get("rows")?,
    ))
}
