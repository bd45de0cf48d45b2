//! Claims on MySQL: finds and leases due rows, in order, in one short transaction.
//!
//! Sizes of rows are stored in a column, so a claim decides which rows fit before it reads a payload. InnoDB reads all
//! of a row that it locks for a change, whatever columns the statement names. So if rows may be large, a claim first
//! reads their sizes without locks, and then locks only as many rows as fit.

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
use crate::claim_byte_limit::rows_within_limit;
use crate::claim_floor::{ClaimRange, IndexPosition};
use crate::clock_and_pauses::ServerState;
use crate::parked_routes_cache;
use crate::row::RowReader;
use crate::store::claim::ClaimDialect;

/// The server's clock and the paused routes, in one round trip.
const SERVER_STATE: &str = concat!(
    "SELECT ",
    micros!("UTC_TIMESTAMP(6)"),
    " AS now, NULL AS paused UNION ALL SELECT NULL, route FROM `{table}_control`"
);

/// The next name after the bound one for which rows are parked: one step in the index, however many rows have that
/// name. A statement for all names would step from name to name only while the statistics of the server are accurate,
/// and otherwise read all parked rows.
pub(super) const NEXT_PARKED: &str = "SELECT /*+ MAX_EXECUTION_TIME(5000) */ parked
FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked > ? ORDER BY parked LIMIT 1";

/// Makes the server end a query for names that takes too long, because it would not notice that the caller has gone
/// away. MySQL takes the limit from the hint in the statement, MariaDB from this prefix.
const BOUNDED: &str = "/*M!100100 SET STATEMENT max_statement_time = 5 FOR */ ";

const _: () = assert!(parked_routes_cache::REFRESH_TIMEOUT.as_secs() == 5);

/// The columns that a claim reads of a row before it leases it.
macro_rules! found {
    () => {
        concat!("SELECT ", micros!("c.now"), " AS now, ", micros!("o.phase_at"), " AS due, o.seq, o.size")
    };
}

/// Finds due rows in the order of the index, and steps over leased ones. The join with one row that contains the clock
/// makes all conditions use the same time.
macro_rules! by_due {
    ($lock:literal) => {
        concat!(
            found!(),
            ", 0 AS leased FROM (SELECT ",
            clock!(),
            " AS now) AS c STRAIGHT_JOIN `{table}` AS o FORCE INDEX (`{table}_due`)
WHERE o.phase = 0 AND o.phase_at <= c.now AND (o.phase_at > ",
            at!(),
            " OR o.phase_at = ",
            at!(),
            " AND o.seq > ?) AND o.phase_at <= ",
            at!(),
            " AND (o.lease_until IS NULL OR o.lease_until <= c.now)
  AND (? = 0 OR o.inserted_at <= c.now - INTERVAL ? MICROSECOND)
ORDER BY o.phase_at, o.seq LIMIT ?",
            $lock
        )
    };
}

/// The index has exactly this order. With another index the server would sort, and it locks every row that it sorts: a
/// second claim at the same time would find nothing. SKIP LOCKED leaves out rows that another transaction is changing.
pub(super) const BY_DUE: Search = Search { sizes: by_due!(""), locking: by_due!(" FOR UPDATE SKIP LOCKED") };

/// Finds rows in the order of insertion, leased ones included, because a leased row ends the search.
macro_rules! by_seq {
    ($lock:literal) => {
        concat!(
            found!(),
            ", COALESCE(o.lease_until > c.now, 0) AS leased FROM (SELECT ",
            clock!(),
            " AS now) AS c STRAIGHT_JOIN `{table}` AS o FORCE INDEX (`{table}_phase`)
WHERE o.phase = 0 AND (o.lease_until > c.now
  OR o.available_at <= c.now AND (? = 0 OR o.inserted_at <= c.now - INTERVAL ? MICROSECOND))
ORDER BY o.seq LIMIT ?",
            $lock
        )
    };
}

/// Steps over rows that wait for their time. The first leased row ends the search. Waits for a row that another
/// transaction is changing (no SKIP LOCKED), because its new state decides what may be claimed. So two such claims
/// never run at the same time: the second waits for the first row of the first one, and then finds it leased.
pub(super) const BY_SEQ: Search = Search { sizes: by_seq!(""), locking: by_seq!(" FOR UPDATE") };

/// A search for rows that can be claimed.
pub(super) struct Search {
    /// Finds sizes without locks, and reads no payload.
    sizes: &'static str,
    /// Finds and locks rows. InnoDB reads all of each.
    pub(super) locking: &'static str,
}

/// Leases rows. A lease that another owner left without an outcome counts as lost, up to the number at which the engine
/// suspects the event.
pub(super) const LEASE: &str = concat!(
    "UPDATE `{table}` SET
  lost_leases = lost_leases + (locked_by IS NOT NULL AND locked_by <> ? AND lost_leases < ?),
  locked_by = ?, locked_at = ",
    at!(),
    ", lease_token = ?, lease_until = ",
    at!(),
    ", parked = NULL WHERE seq IN ({keys})"
);

pub(super) const ROWS: &str =
    concat!("SELECT ", event_columns!(), " FROM `{table}` AS o WHERE o.seq IN ({keys})");

/// A row that a search found.
struct DueRow {
    /// The server's clock at the search, in microseconds since 1970.
    now: i64,
    position: IndexPosition,
    size: i64,
}

/// Locked rows, in the order in which they are claimed.
struct LockedRows {
    rows: Vec<MySqlRow>,
    /// The LIMIT of the search.
    limit: usize,
    /// True if more rows were due, and did not fit.
    cut: bool,
}

/// The rows that a claim leased.
#[derive(Default)]
struct TakenRows {
    events: Vec<Leased>,
    malformed: Vec<Malformed>,
    /// True if the next row did not fit.
    cut: bool,
    /// The position of the last row; `None` if the claim has seen all that is due.
    last: Option<IndexPosition>,
}

impl ClaimDialect for MySql {
    async fn read_server_state(store: &MySqlStore) -> Result<ServerState, StoreError> {
        let state = store.connections().engine(async |connection| {
            read_server_state(&store.sql().query::<MySql>(SERVER_STATE).fetch_all(connection).await?)
        });
        state.await
    }

    async fn read_parked_names(store: MySqlStore) -> Result<BTreeSet<String>, StoreError> {
        let names = store.connections().engine(async |connection| {
            let mut names = BTreeSet::new();
            while names.len() < Claimed::MAX_PARKED_NAMES {
                let last = names.last().cloned().unwrap_or_default();
                let query = store.sql().query_of::<MySql>(&[BOUNDED, NEXT_PARKED]).bind(last);
                let Some(next) = query.fetch_optional(&mut *connection).await? else { break };
                names.insert(next.try_get::<String, _>(0)?);
            }
            Ok(names)
        });
        names.await
    }

    async fn take(
        store: &MySqlStore,
        claim: &Claim<'_>,
        seen_at: Timestamp,
        claimed: &mut Claimed,
    ) -> Result<(), StoreError> {
        let taken = match claim.order {
            ClaimOrder::Seq => store.take_by_seq(claim).await?,
            ClaimOrder::Due => store.take_by_due(claim, seen_at).await?,
        };
        (claimed.events, claimed.malformed, claimed.cut) = (taken.events, taken.malformed, taken.cut);
        Ok(())
    }
}

impl MySqlStore {
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

    async fn take_by_due(&self, claim: &Claim<'_>, seen_at: Timestamp) -> Result<TakenRows, StoreError> {
        let take = async |range: ClaimRange| {
            let taken = self.connections().engine_in_transaction(async |connection| {
                let skip_recent = delay(claim.skip_recent);
                let until = range.until.unwrap_or(Timestamp::from_micros(i64::MAX));
                let bind = |query: MySqlQuery| {
                    let from = value::time(range.from.due);
                    let query = query.bind(value::now(claim.now)).bind(from).bind(from).bind(range.from.seq);
                    query.bind(value::time(until)).bind(skip_recent).bind(skip_recent)
                };
                let locked = self.lock_rows(connection, claim, &BY_DUE, bind).await?;
                self.take(connection, claim, &locked).await
            });
            taken.await
        };
        self.claim_from_floor(claim, seen_at, take, |taken| taken.last).await
    }

    /// Finds rows and locks them. `bind` binds everything but the LIMIT.
    async fn lock_rows(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        search: &Search,
        bind: impl Fn(MySqlQuery) -> MySqlQuery,
    ) -> sqlx::Result<LockedRows> {
        let query = |text, limit| bind(self.sql().query::<MySql>(text)).bind(value::limit(limit));
        let (mut limit, mut cut) = (claim.limit, false);
        // The flag stays set if this claim is dropped, perhaps because of large rows. So the next claim reads sizes
        // first.
        if self.0.state.large_rows.swap(true, Ordering::Relaxed) {
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
    ) -> sqlx::Result<TakenRows> {
        let free = free_rows(&locked.rows)?;
        let fitting = rows_within_limit(free.iter().map(|row| row.size), claim.max_bytes);
        let full = locked.rows.len() == locked.limit;
        let cut = fitting < free.len() || full && locked.cut;
        self.0.state.large_rows.store(cut || locked.limit < claim.limit, Ordering::Relaxed);
        let Some(last) = free[..fitting].last() else { return Ok(TakenRows::default()) };
        let (now, may_be_more) = (last.now, cut || full);
        let mut taken = TakenRows { cut, last: may_be_more.then_some(last.position), ..TakenRows::default() };
        let seqs: Vec<i64> = free[..fitting].iter().map(|row| row.position.seq).collect();
        let mut sorted = seqs.clone();
        // Every transaction changes rows in the order of `seq`, so that two of them cannot deadlock.
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
    ) -> sqlx::Result<()> {
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

    /// Streams the rows, so that each is in memory only once.
    async fn read_leased(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        seqs: &[i64],
        now: i64,
        taken: &mut TakenRows,
    ) -> sqlx::Result<()> {
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
    fn read(row: &MySqlRow) -> sqlx::Result<Self> {
        // Another program may have written a date of zeros, which is not a time.
        let due = row.try_get::<Option<i64>, _>("due")?.map(Timestamp::from_micros).unwrap_or_default();
        Ok(Self {
            now: row.try_get("now")?,
            position: IndexPosition { due, seq: row.try_get("seq")? },
            size: row.try_get("size")?,
        })
    }
}

/// The rows before the first leased one.
fn free_rows(rows: &[MySqlRow]) -> sqlx::Result<Vec<DueRow>> {
    rows.iter().take_while(|row| !is_leased(row)).map(DueRow::read).collect()
}

fn is_leased(row: &MySqlRow) -> bool {
    row.try_get::<i64, _>("leased").map_or(true, |leased| leased != 0)
}

fn read_server_state(rows: &[MySqlRow]) -> sqlx::Result<ServerState> {
    let (mut now, mut paused) = (None, BTreeSet::new());
    for row in rows {
        now = now.or(row.try_get::<Option<i64>, _>(0)?);
        paused.extend(row.try_get::<Option<String>, _>(1)?);
    }
    Ok(ServerState { read_at: Instant::now(), now: Timestamp::from_micros(now.unwrap_or_default()), paused })
}
