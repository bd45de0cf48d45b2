//! Claims: due rows, in order, found and leased in one short transaction.
//!
//! Which rows fit is decided from their sizes, which stand in a column of their own, before a payload is read. InnoDB
//! reads the whole of each row that it locks for a change, whatever columns a statement names. So where rows may be
//! large, a claim looks at their sizes first, without a lock, and then locks no more rows than fit.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::TryStreamExt as _;
use posthaste::store::{Claim, ClaimOrder, Claimed, Leased, Malformed, SUSPECT_LOST_LEASES};
use posthaste::{StoreError, Timestamp};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::MySqlStore;
use super::row::event_columns;
use super::value::{self, MAX_KEYS, MySqlQuery, at, bind_all, clock, delay, micros, placeholder_count};
use crate::byte_limit::rows_within_limit;
use crate::claim_floor::{ClaimRange, IndexPosition, MAX_COMMIT_LAG};
use crate::parked_routes_cache;
use crate::row::RowReader;
use crate::server_state_cache::ServerState;

/// The server's clock, and the paused routes.
const SERVER_STATE: &str = concat!(
    "SELECT ",
    micros!("UTC_TIMESTAMP(6)"),
    " AS now, NULL AS paused UNION ALL SELECT NULL, route FROM `{table}_control`"
);

/// The first name behind this one that rows are parked for: one step into the index, however many rows bear
/// it. A statement that asks for all names would do so only while the server's statistics are good, and read
/// all that is parked otherwise.
pub(super) const NEXT_PARKED: &str = "SELECT /*+ MAX_EXECUTION_TIME(5000) */ parked
FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked > ? ORDER BY parked LIMIT 1";

/// The server itself ends a look that takes too long: it would not see that its caller has gone away. For MySQL the
/// limit stands in the statement; MariaDB takes it from here.
const BOUNDED: &str = "/*M!100100 SET STATEMENT max_statement_time = 5 FOR */ ";

const _: () = assert!(parked_routes_cache::REFRESH_TIMEOUT.as_secs() == 5);

/// What a claim has to know of a row before it takes it.
macro_rules! found {
    () => {
        concat!("SELECT ", micros!("c.now"), " AS now, ", micros!("o.phase_at"), " AS due, o.seq, o.size")
    };
}

macro_rules! by_due {
    ($lock:literal) => {
        concat!(
            found!(),
            ", 0 AS leased FROM (SELECT ",
            clock!(),
            " AS now) AS c STRAIGHT_JOIN `{table}` AS o FORCE INDEX (`{table}_due`)
WHERE o.phase = 0 AND o.phase_at <= c.now AND o.phase_at >= ",
            at!(),
            " AND o.phase_at <= ",
            at!(),
            " AND (? = 0 OR o.inserted_at <= c.now - INTERVAL ? MICROSECOND)
ORDER BY o.phase_at, o.seq LIMIT ?",
            $lock
        )
    };
}

/// The index has exactly this order. Another would have to be sorted, and what is sorted is locked from
/// the first row to the last, so that a second claimer would find nothing.
pub(super) const BY_DUE: Search = Search { sizes: by_due!(""), locking: by_due!(" FOR UPDATE SKIP LOCKED") };

macro_rules! by_seq {
    ($lock:literal) => {
        concat!(
            found!(),
            ", o.available_at > c.now AS leased FROM (SELECT ",
            clock!(),
            " AS now) AS c STRAIGHT_JOIN `{table}` AS o FORCE INDEX (`{table}_phase`)
WHERE o.phase = 0 AND (o.locked_by IS NOT NULL AND o.available_at > c.now
  OR o.available_at <= c.now AND (? = 0 OR o.inserted_at <= c.now - INTERVAL ? MICROSECOND))
ORDER BY o.seq LIMIT ?",
            $lock
        )
    };
}

/// Rows that wait for their time are stepped over; the first one on lease ends the search. A row that
/// somebody is changing is waited for: what it becomes decides what may be claimed. So two such claims
/// never run at once: the second waits for the first row of the first, and then finds it on lease.
pub(super) const BY_SEQ: Search = Search { sizes: by_seq!(""), locking: by_seq!(" FOR UPDATE") };

/// One search for rows that can be claimed.
pub(super) struct Search {
    /// Reads no payload.
    sizes: &'static str,
    /// Reads all of each row that it finds.
    pub(super) locking: &'static str,
}

pub(super) const LEASE: &str = concat!(
    "UPDATE `{table}` SET
  lost_leases = lost_leases + (locked_by IS NOT NULL AND locked_by <> ? AND lost_leases < ?),
  locked_by = ?, locked_at = ",
    at!(),
    ", lease_token = ?, available_at = ",
    at!(),
    ", parked = NULL WHERE seq IN ({keys})"
);

pub(super) const ROWS: &str =
    concat!("SELECT ", event_columns!(), " FROM `{table}` AS o WHERE o.seq IN ({keys})");

/// A row that was found and is locked.
struct DueRow {
    now: i64,
    position: IndexPosition,
    size: i64,
}

/// Rows that are locked, in the order in which they are taken.
struct LockedRows {
    rows: Vec<MySqlRow>,
    /// No more than so many were asked for.
    limit: usize,
    /// Whether more were due, and did not fit.
    cut: bool,
}

/// What a claim has taken.
#[derive(Default)]
struct TakenRows {
    events: Vec<Leased>,
    malformed: Vec<Malformed>,
    /// Whether the next row did not fit.
    cut: bool,
    /// The last row, if there may be more behind it.
    last: Option<IndexPosition>,
}

impl MySqlStore {
    pub(super) async fn claim_rows(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let ServerState { now, paused, .. } = self.server_state().await?;
        let parked = self.0.parked_names.names(|| self.clone().read_parked_names()).await;
        let taken = match (claim.limit, claim.order) {
            (0, _) => TakenRows::default(),
            (_, ClaimOrder::Seq) => self.take_by_seq(claim).await?,
            (_, ClaimOrder::Due) => self.take_by_due(claim, now).await?,
        };
        let TakenRows { events, malformed, cut, .. } = taken;
        let mut claimed = Claimed::default();
        (claimed.events, claimed.malformed, claimed.cut) = (events, malformed, cut);
        (claimed.paused, claimed.parked) = (paused, parked);
        Ok(claimed)
    }

    async fn server_state(&self) -> Result<ServerState, StoreError> {
        if let Some(state) = self.0.server_state.recent() {
            return Ok(state);
        }
        let state = self.connections().engine(async |connection| {
            read_server_state(&self.sql().query::<MySql>(SERVER_STATE).fetch_all(connection).await?)
        });
        let state = state.await?;
        self.0.server_state.set(Some(state.clone()));
        Ok(state)
    }

    async fn read_parked_names(self) -> Result<BTreeSet<String>, StoreError> {
        let names = self.connections().engine(async |connection| {
            let mut names = BTreeSet::new();
            while names.len() < Claimed::MAX_PARKED_NAMES {
                let last = names.last().cloned().unwrap_or_default();
                let query = self.sql().query_of::<MySql>(&[BOUNDED, NEXT_PARKED]).bind(last);
                let Some(next) = query.fetch_optional(&mut *connection).await? else { break };
                names.insert(next.try_get::<String, _>(0)?);
            }
            Ok(names)
        });
        names.await
    }

    async fn take_by_seq(&self, claim: &Claim<'_>) -> Result<TakenRows, StoreError> {
        let taken = self.connections().engine_in_transaction(async |connection| {
            let skip_recent = delay(claim.skip_recent);
            let bind =
                |query: MySqlQuery| query.bind(value::now(claim.now)).bind(skip_recent).bind(skip_recent);
            let locked = self.lock_rows(connection, claim, &BY_SEQ, bind).await?;
            self.take(connection, claim, &locked).await
        });
        taken.await
    }

    /// `seen_at` is a time of the server's clock before this claim.
    async fn take_by_due(&self, claim: &Claim<'_>, seen_at: Timestamp) -> Result<TakenRows, StoreError> {
        // A clock of the caller's own, or rows that are left for later, tell nothing about the next claim.
        let plain = claim.now.is_none() && claim.skip_recent.is_zero();
        let range = if plain { self.0.claim_floor.begin(seen_at) } else { ClaimRange::WHOLE };
        let started = Instant::now();
        let taken = self.connections().engine_in_transaction(async |connection| {
            let skip_recent = delay(claim.skip_recent);
            let until = range.until.unwrap_or(Timestamp::from_micros(i64::MAX));
            let bind = |query: MySqlQuery| {
                let query = query.bind(value::now(claim.now)).bind(value::time(range.from.due));
                query.bind(value::time(until)).bind(skip_recent).bind(skip_recent)
            };
            let locked = self.lock_rows(connection, claim, &BY_DUE, bind).await?;
            self.take(connection, claim, &locked).await
        });
        let taken = taken.await;
        if plain && taken.is_err() {
            self.0.claim_floor.fail(&range, seen_at, started.elapsed());
        }
        let taken = taken?;
        if plain {
            // A batch that is not full has seen all that is due.
            let seen = taken.last.unwrap_or(IndexPosition { due: seen_at - MAX_COMMIT_LAG, seq: 0 });
            self.0.claim_floor.end(&range, seen, taken.last.is_some(), started.elapsed());
        }
        Ok(taken)
    }

    /// Finds rows and locks them. `bind` binds everything but the number of rows.
    async fn lock_rows(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        search: &Search,
        bind: impl Fn(MySqlQuery) -> MySqlQuery,
    ) -> Result<LockedRows, sqlx::Error> {
        let query = |text, limit| bind(self.sql().query::<MySql>(text)).bind(value::limit(limit));
        let (mut limit, mut cut) = (claim.limit, false);
        // A claim that does not come to its end may have met large rows, and leaves this to the next one.
        if self.0.large_rows.swap(true, Ordering::Relaxed) {
            let rows = query(search.sizes, limit).fetch_all(&mut *connection).await?;
            let free = free_rows(&rows)?;
            let fitting = rows_within_limit(free.iter().map(|row| row.size), claim.max_bytes);
            if fitting < rows.len() {
                limit = fitting.max(1);
            }
            cut = fitting < free.len();
        }
        let rows = query(search.locking, limit).fetch_all(connection).await?;
        Ok(LockedRows { rows, limit, cut })
    }

    /// Leases as many of the rows as fit, and reads them.
    async fn take(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        locked: &LockedRows,
    ) -> Result<TakenRows, sqlx::Error> {
        let free = free_rows(&locked.rows)?;
        let fitting = rows_within_limit(free.iter().map(|row| row.size), claim.max_bytes);
        let full = locked.rows.len() == locked.limit;
        let cut = fitting < free.len() || full && locked.cut;
        self.0.large_rows.store(cut || locked.limit < claim.limit, Ordering::Relaxed);
        let Some(last) = free[..fitting].last() else { return Ok(TakenRows::default()) };
        let (now, may_be_more) = (last.now, cut || full);
        let mut taken = TakenRows { cut, last: may_be_more.then_some(last.position), ..TakenRows::default() };
        let seqs: Vec<i64> = free[..fitting].iter().map(|row| row.position.seq).collect();
        let mut sorted = seqs.clone();
        // Those who change the same rows meet them in the same order.
        sorted.sort_unstable();
        for seqs in sorted.chunks(MAX_KEYS) {
            self.lease(connection, claim, seqs, now).await?;
            self.read_leased(connection, claim, seqs, now, &mut taken).await?;
        }
        let position: HashMap<i64, usize> = seqs.into_iter().zip(0..).collect();
        taken.events.sort_by_key(|leased| position.get(&leased.lease.seq).copied());
        Ok(taken)
    }

    async fn lease(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        seqs: &[i64],
        now: i64,
    ) -> Result<(), sqlx::Error> {
        let query = self
            .sql()
            .listed(LEASE, placeholder_count(seqs.len()))
            .bind(claim.owner.as_str())
            .bind(SUSPECT_LOST_LEASES);
        let query = query.bind(claim.owner.as_str()).bind(now).bind(claim.token.as_i64());
        let query = query.bind(now.saturating_add(delay(claim.lease)));
        bind_all(query, seqs).execute(connection).await?;
        Ok(())
    }

    /// One after the other, so that the driver's row is gone before the next one is copied.
    async fn read_leased(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        seqs: &[i64],
        now: i64,
        taken: &mut TakenRows,
    ) -> Result<(), sqlx::Error> {
        let query = bind_all(self.sql().listed(ROWS, placeholder_count(seqs.len())), seqs);
        let mut rows = query.fetch(connection);
        while let Some(row) = rows.try_next().await? {
            match RowReader::new(&row).leased(claim, Timestamp::from_micros(now)) {
                Ok(leased) => taken.events.push(leased),
                Err(malformed) => taken.malformed.push(malformed),
            }
        }
        Ok(())
    }
}

impl DueRow {
    fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        // A date of zeros, which some program has written, is no time.
        let due = row.try_get::<Option<i64>, _>("due")?.map(Timestamp::from_micros).unwrap_or_default();
        Ok(Self {
            now: row.try_get("now")?,
            position: IndexPosition { due, seq: row.try_get("seq")? },
            size: row.try_get("size")?,
        })
    }
}

/// The rows before the first one on lease.
fn free_rows(rows: &[MySqlRow]) -> Result<Vec<DueRow>, sqlx::Error> {
    rows.iter().take_while(|row| !is_leased(row)).map(DueRow::read).collect()
}

fn is_leased(row: &MySqlRow) -> bool {
    row.try_get::<i64, _>("leased").map_or(true, |leased| leased != 0)
}

fn read_server_state(rows: &[MySqlRow]) -> Result<ServerState, sqlx::Error> {
    let (mut now, mut paused) = (None, BTreeSet::new());
    for row in rows {
        now = now.or(row.try_get::<Option<i64>, _>(0)?);
        paused.extend(row.try_get::<Option<String>, _>(1)?);
    }
    Ok(ServerState { read_at: Instant::now(), now: Timestamp::from_micros(now.unwrap_or_default()), paused })
}
