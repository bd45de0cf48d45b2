//! The operator's door.

use async_trait::async_trait;
use posthaste::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, DeadGroup, Filter, Finding, Page, PageRequest, Replay, Stats,
    Tolerance,
};
use posthaste::store::Purge;
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::PgStore;
use super::backlog;
use super::diagnose;
use super::filter::Conditions;
use super::purge::{self, purge_in};
use super::row::{event_columns, row_columns};
use super::stats;
use super::value::{self, Time};
use crate::page::cut_page;
use crate::row::{detail, view};
use crate::row_estimate::count;

const GET: &str =
    concat!("SELECT ", row_columns!(), ", ", event_columns!(), r#" FROM "{table}" AS o WHERE event_id = $1"#);

const GET_ARCHIVED: &str = concat!(
    "SELECT ",
    row_columns!(),
    ", ",
    event_columns!(),
    r#" FROM "{table}_archive" AS o WHERE event_id = $1 ORDER BY seq DESC LIMIT 1"#
);

pub(super) const DEAD_GROUPS: &str = r#"SELECT
  coalesce(aggregate_type, $1), event_type, coalesce(left(last_error, 200), ''),
  count(*) AS total, min(done_at), max(done_at)
FROM (SELECT * FROM "{table}" WHERE status = 3 ORDER BY seq DESC LIMIT 10000) AS dead
GROUP BY 1, 2, 3 ORDER BY total DESC, 2, 3 LIMIT {limit}"#;

const REVIVE: &str = r#"UPDATE "{table}" SET status = 0, available_at = statement_timestamp(), attempts = 0,
  deferrals = 0, lost_leases = 0, replays = least(replays, 2147483646) + 1, last_error = NULL, done_at = NULL,
  put_off_since = NULL, put_off_limit = NULL, parked = NULL, locked_by = NULL, locked_at = NULL, lease_token = 0,
  progress = CASE WHEN $2 THEN NULL ELSE progress END
WHERE seq = ANY ($1) AND status = 3"#;

const NOTE: &str = r#"INSERT INTO "{table}_audit" (at, actor, action, target, rows)
VALUES (statement_timestamp(), $1, $2, $3, $4)"#;

const PAUSE: &str = r#"INSERT INTO "{table}_control" (route, paused_at, paused_by)
VALUES ($1, statement_timestamp(), $2) ON CONFLICT (route) DO NOTHING"#;

const RESUME: &str = r#"DELETE FROM "{table}_control" WHERE route = $1"#;

const AUDIT: &str = r#"SELECT seq, at, actor, action, target, rows FROM "{table}_audit"
WHERE seq < $1 ORDER BY seq DESC LIMIT {limit}"#;

#[async_trait]
impl Admin for PgStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        self.read(async |connection| stats::read(self.sql(), connection).await).await
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        self.read(async |connection| backlog::read(self.sql(), connection, by, limit).await).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let conditions = Conditions::new(filter);
        self.read(async |connection| {
            let row = conditions.query(self.sql(), "count(*)", "").fetch_one(connection).await?;
            count(&row, 0)
        })
        .await
    }

    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        let conditions = Conditions::new(filter).after(page.after);
        self.read(async |connection| {
            let tail = format!(" ORDER BY o.seq LIMIT {}", limit + 1);
            let rows = conditions.query(self.sql(), row_columns!(), &tail).fetch_all(connection).await?;
            Ok(cut_page(rows.iter().map(view).collect(), limit, |row| row.seq))
        })
        .await
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        let id = value::text(id.as_str()).into_owned();
        self.read(async |connection| {
            for statement in [GET, GET_ARCHIVED] {
                let query = self.sql().query::<Postgres>(statement).bind(&id);
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
            stats::read_in_order(connection).await?;
            let query = self.sql().limited::<Postgres>(&[DEAD_GROUPS], limit).persistent(false).bind(GLOBAL);
            query.fetch_all(connection).await?.iter().map(dead_group).collect()
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
            purge::delete(self.sql(), connection, &seqs).await?;
            Ok(seqs.len() as u64)
        })
        .await
    }

    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        if purge.archive {
            self.prepare_archive().await;
        }
        let action = Action { actor, name: "purge", target: purge.to_string() };
        self.act(action, async |connection| purge_in(self.sql(), connection, purge).await).await
    }

    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "pause", target: route.to_owned() };
        let paused = self.act(action, async |connection| {
            let query = self.sql().query::<Postgres>(PAUSE).bind(value::text(route));
            Ok(query.bind(value::text(actor)).execute(connection).await?.rows_affected())
        });
        let paused = paused.await?;
        self.forget_cached_state();
        Ok(paused == 1)
    }

    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "resume", target: route.to_owned() };
        let resumed = self.act(action, async |connection| {
            let query = self.sql().query::<Postgres>(RESUME).bind(value::text(route));
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
            let query = self.sql().limited::<Postgres>(&[AUDIT], limit + 1);
            let rows = query.bind(page.after.unwrap_or(i64::MAX)).fetch_all(connection).await?;
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

impl PgStore {
    async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        self.connections().viewer(work).await
    }

    /// Changes rows and notes who did it, in one transaction; a change of nothing is not noted.
    async fn act(
        &self,
        action: Action<'_>,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<u64, sqlx::Error>,
    ) -> Result<u64, StoreError> {
        self.connections()
            .operator(async |connection| {
                let rows = work(&mut *connection).await?;
                if rows > 0 {
                    let query = self.sql().query::<Postgres>(NOTE).bind(value::text(action.actor));
                    let query = query.bind(action.name).bind(value::text(&action.target));
                    query.bind(rows.cast_signed()).execute(connection).await?;
                }
                Ok(rows)
            })
            .await
    }

    /// The DEAD rows that match, oldest first.
    async fn find_dead(
        &self,
        connection: &mut PgConnection,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<i64>, sqlx::Error> {
        let Some(conditions) = Conditions::dead(filter) else { return Ok(Vec::new()) };
        let tail = format!(" ORDER BY o.seq LIMIT {} FOR UPDATE SKIP LOCKED", value::limit(limit));
        let rows = conditions.query(self.sql(), "o.seq", &tail).fetch_all(connection).await?;
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
        self.act(action, async |connection| {
            let seqs = self.find_dead(connection, filter, limit).await?;
            let query = self.sql().query::<Postgres>(REVIVE).bind(seqs).bind(replay.forget_progress);
            let revived = query.execute(&mut *connection).await?.rows_affected();
            if revived > 0 {
                self.notify(connection).await?;
            }
            Ok(revived)
        })
        .await
    }
}

fn dead_group(row: &PgRow) -> Result<DeadGroup, sqlx::Error> {
    let time = |index: usize| -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(row.try_get::<Option<Time>, _>(index)?.map(|time| time.0))
    };
    let group = DeadGroup::new(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(group.with_deaths(count(row, 3)?, time(4)?, time(5)?))
}

fn audit_entry(row: &PgRow) -> Result<AuditEntry, sqlx::Error> {
    let at: Time = row.try_get("at")?;
    Ok(AuditEntry::new(
        row.try_get("seq")?,
        at.0,
        row.try_get("actor")?,
        row.try_get("action")?,
        row.try_get("target")?,
        count(row, 5)?,
    ))
}
