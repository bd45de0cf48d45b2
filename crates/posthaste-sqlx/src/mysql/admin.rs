//! The operator's door.

use async_trait::async_trait;
use posthaste::admin::{
    Admin, AuditEntry, Backlog, BacklogBy, DeadGroup, Filter, Finding, Page, PageRequest, Replay, Stats,
    Tolerance,
};
use posthaste::store::Purge;
use posthaste::{EventDetail, EventId, EventRow, GLOBAL, StoreError, Timestamp};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::backlog;
use super::diagnose;
use super::filter::Conditions;
use super::purge::{self, purge_in};
use super::row::{content_columns, row_columns};
use super::stats;
use super::value::{self, MAX_KEYS, bind_all, micros, placeholder_count};
use crate::page::cut_page;
use crate::row::{detail, view};
use crate::row_estimate::count;

const GET: &str =
    concat!("SELECT ", row_columns!(), ", ", content_columns!(), " FROM `{table}` AS o WHERE event_id = ?");

const GET_ARCHIVED: &str = concat!(
    "SELECT ",
    row_columns!(),
    ", ",
    content_columns!(),
    " FROM `{table}_archive` AS o WHERE event_id = ? ORDER BY seq DESC LIMIT 1"
);

const DEAD_GROUPS: &str = concat!(
    "SELECT aggregate, event_type, reason, COUNT(*) AS total, ",
    micros!("MIN(done_at)"),
    ", ",
    micros!("MAX(done_at)"),
    " FROM (SELECT COALESCE(aggregate_type, ?) AS aggregate, event_type,
    COALESCE(LEFT(last_error, 200), '') AS reason, done_at
  FROM `{table}` WHERE phase = 3 ORDER BY seq DESC LIMIT 10000) AS dead
GROUP BY aggregate, event_type, reason ORDER BY total DESC, event_type, reason LIMIT ?"
);

const REVIVE: &str = "UPDATE `{table}` SET status = 0, available_at = UTC_TIMESTAMP(6), attempts = 0,
  deferrals = 0, lost_leases = 0, replays = LEAST(replays, 2147483646) + 1, last_error = NULL, done_at = NULL,
  parked = NULL, put_off_since = NULL, put_off_limit = NULL, locked_by = NULL, locked_at = NULL, lease_token = 0,
  progress = IF(?, NULL, progress)
WHERE seq IN ({keys}) AND phase = 3";

const NOTE: &str = "INSERT INTO `{table}_audit` (at, actor, action, target, `rows`)
VALUES (UTC_TIMESTAMP(6), ?, ?, ?, ?)";

/// A route that is paused already stays as it is.
const PAUSE: &str = "INSERT INTO `{table}_control` (route, paused_at, paused_by)
SELECT ?, UTC_TIMESTAMP(6), ? FROM (SELECT 1) AS one
WHERE NOT EXISTS (SELECT 1 FROM `{table}_control` WHERE route = ?)";

const RESUME: &str = "DELETE FROM `{table}_control` WHERE route = ?";

const AUDIT: &str = concat!(
    "SELECT seq, ",
    micros!("at"),
    " AS at, actor, action, target, `rows` FROM `{table}_audit` WHERE seq < ? ORDER BY seq DESC LIMIT ?"
);

#[async_trait]
impl Admin for MySqlStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        self.read(async |connection: &mut MySqlConnection| stats::read(self.sql(), connection).await).await
    }

    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        self.read(async |connection: &mut MySqlConnection| {
            backlog::read(self.sql(), connection, by, limit).await
        })
        .await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        self.read(async |connection| {
            let row = Conditions::new(filter).query(self.sql(), "count(*)", "").fetch_one(connection).await?;
            count(&row, 0)
        })
        .await
    }

    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError> {
        let limit = page.limit.min(PageRequest::MAX_LIMIT);
        self.read(async |connection| {
            let conditions = Conditions::new(filter).after(page.after);
            let tail = format!(" ORDER BY o.seq LIMIT {}", limit + 1);
            let rows = conditions.query(self.sql(), row_columns!(), &tail).fetch_all(connection).await?;
            Ok(cut_page(rows.iter().map(view).collect(), limit, |row| row.seq))
        })
        .await
    }

    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError> {
        self.read(async |connection| {
            for statement in [GET, GET_ARCHIVED] {
                let query = self.sql().query::<MySql>(statement).bind(id.as_str());
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
            let query = self.sql().query::<MySql>(DEAD_GROUPS).bind(GLOBAL).bind(value::limit(limit));
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
        let action = Action { actor, name: "purge", target: purge.to_string() };
        self.act(action, async |connection| purge_in(self.sql(), connection, purge).await).await
    }

    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "pause", target: route.to_owned() };
        let paused = self.act(action, async |connection| {
            let query = self.sql().query::<MySql>(PAUSE).bind(route).bind(actor).bind(route);
            Ok(query.execute(connection).await?.rows_affected())
        });
        let paused = paused.await?;
        self.forget_cached_state();
        Ok(paused == 1)
    }

    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError> {
        let action = Action { actor, name: "resume", target: route.to_owned() };
        let resumed = self.act(action, async |connection| {
            Ok(self.sql().query::<MySql>(RESUME).bind(route).execute(connection).await?.rows_affected())
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
            let query = self.sql().query::<MySql>(AUDIT).bind(page.after.unwrap_or(i64::MAX));
            let rows = query.bind(value::limit(limit + 1)).fetch_all(connection).await?;
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

impl MySqlStore {
    async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<T, sqlx::Error> + Clone,
    ) -> Result<T, StoreError> {
        self.connections().viewer(work).await
    }

    /// Changes rows and notes who did it, in one transaction; a change of nothing is not noted.
    async fn act(
        &self,
        action: Action<'_>,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<u64, sqlx::Error> + Clone,
    ) -> Result<u64, StoreError> {
        self.connections()
            .operator(async |connection| {
                let rows = work(&mut *connection).await?;
                if rows > 0 {
                    let query = self.sql().query::<MySql>(NOTE).bind(action.actor);
                    let query = query.bind(action.name).bind(&action.target);
                    query.bind(rows.cast_signed()).execute(connection).await?;
                }
                Ok(rows)
            })
            .await
    }

    /// The DEAD rows that match, oldest first.
    async fn find_dead(
        &self,
        connection: &mut MySqlConnection,
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
            let mut revived = 0;
            for seqs in seqs.chunks(MAX_KEYS) {
                let query =
                    self.sql().listed(REVIVE, placeholder_count(seqs.len())).bind(replay.forget_progress);
                revived += bind_all(query, seqs).execute(&mut *connection).await?.rows_affected();
            }
            Ok(revived)
        })
        .await
    }
}

fn dead_group(row: &MySqlRow) -> Result<DeadGroup, sqlx::Error> {
    let time = |index: usize| -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(row.try_get::<Option<i64>, _>(index)?.map(Timestamp::from_micros))
    };
    let group = DeadGroup::new(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(group.with_deaths(count(row, 3)?, time(4)?, time(5)?))
}

fn audit_entry(row: &MySqlRow) -> Result<AuditEntry, sqlx::Error> {
    Ok(AuditEntry::new(
        row.try_get("seq")?,
        Timestamp::from_micros(row.try_get("at")?),
        row.try_get("actor")?,
        row.try_get("action")?,
        row.try_get("target")?,
        count(row, 5)?,
    ))
}
