//! Leases on the rows of a foreign table, and the other facts that the table has no column for: when a row is due
//! again, and how often it failed.
//!
//! They are kept in the memory of the one process that delivers, and may be lost at any time. After that every pending
//! row is due, and attempts start again from zero unless the table counts them.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use posthaste::EventId;
use posthaste::store::{Claimed, Lease, LeaseToken};
use tokio::time::Instant;

use super::row_key::RowKey;

/// A row that was not part of any call for this time is forgotten, because it may no longer exist.
const FORGET_AFTER: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Rows that are leased, wait for their time, or have a history. An id has one entry, whatever the key is.
    rows: HashMap<EventId, RowState>,
    /// The number of rows seen so far, from which each new row gets its `order`.
    seen: u64,
    /// When unused rows were last removed.
    pruned: Option<Instant>,
}

#[derive(Debug)]
struct RowState {
    key: RowKey,
    /// The order in which rows were first seen. It is the order of the table.
    order: u64,
    /// The end of the lease, the time of the next attempt, or the end of the park.
    due: Instant,
    /// The token of the current lease. `None` if the row is not leased.
    token: Option<LeaseToken>,
    /// Tokens of leases whose outcome was not reported yet, including expired ones. A report with any other token is
    /// about another row with the same id.
    under_way: VecDeque<LeaseToken>,
    attempts: u32,
    deferrals: u32,
    progress: BTreeSet<String>,
    parked: Option<String>,
    put_off: Option<PutOff>,
}

/// The time since when a row has been put off with a limit, and the longest limit since then.
#[derive(Debug)]
struct PutOff {
    since: Instant,
    limit: Duration,
}

/// What is remembered of a claimed row.
#[derive(Debug, Default)]
pub(super) struct RowHistory {
    pub(super) attempts: u32,
    pub(super) deferrals: u32,
    pub(super) progress: BTreeSet<String>,
}

impl Leases {
    /// The most rows that may wait in memory for their time. Beyond it nothing is claimed until some of them are due.
    pub(super) const MAX_WAITING_ROWS: usize = 10_000;

    /// The number of rows that wait for their time. A query for pending rows may find that many before the first due
    /// row.
    pub(super) fn waiting(&self, now: Instant) -> usize {
        self.rows.values().filter(|row| row.due > now).count()
    }

    /// The first `limit` of these keys whose rows are due.
    pub(super) fn free(&self, keys: Vec<RowKey>, limit: usize, now: Instant) -> Vec<RowKey> {
        let mut ids = BTreeSet::new();
        // Two rows may have the same id if the key has more columns. They are delivered one after the other: the second
        // is leased only when the outcome of the first is known, or one outcome could be taken for the other.
        let is_free =
            |row: &RowState, key: &RowKey| row.due <= now && (row.key == *key || row.under_way.is_empty());
        let is_due = |key: &RowKey| self.rows.get(&key.id).is_none_or(|row| is_free(row, key));
        keys.into_iter().filter(|key| is_due(key) && ids.insert(key.id.clone())).take(limit).collect()
    }

    /// Leases a row.
    pub(super) fn lease(&mut self, key: RowKey, token: LeaseToken, until: Instant) {
        self.seen += 1;
        let row =
            self.rows.entry(key.id.clone()).or_insert_with(|| RowState::new(key.clone(), self.seen, until));
        if row.key != key {
            *row = RowState::new(key, self.seen, until);
        }
        (row.token, row.due, row.parked) = (Some(token), until, None);
        row.begin(token);
    }

    /// What is remembered of a leased row.
    pub(super) fn history(&self, id: &EventId) -> RowHistory {
        self.rows.get(id).map_or_else(RowHistory::default, |row| RowHistory {
            attempts: row.attempts,
            deferrals: row.deferrals,
            progress: row.progress.clone(),
        })
    }

    /// Forgets the rows of a claim that were not found in the table.
    pub(super) fn forget_but(&mut self, token: LeaseToken, found: &HashSet<EventId>) {
        self.rows.retain(|id, row| row.token != Some(token) || found.contains(id));
    }

    /// Makes all rows of a claim due again.
    pub(super) fn release_all(&mut self, token: LeaseToken, now: Instant) {
        for row in self.rows.values_mut().filter(|row| row.token == Some(token)) {
            (row.token, row.due) = (None, now);
            row.end(token);
        }
    }

    /// The key of the row that was claimed with this lease, even if another lease has replaced it.
    pub(super) fn key(&self, lease: &Lease) -> Option<&RowKey> {
        let row = self.rows.get(&lease.id)?;
        row.under_way.contains(&lease.token).then_some(&row.key)
    }

    pub(super) fn holds(&self, lease: &Lease) -> bool {
        self.rows.get(&lease.id).is_some_and(|row| row.token == Some(lease.token))
    }

    pub(super) fn attempts(&self, id: &EventId) -> u32 {
        self.rows.get(id).map_or(0, |row| row.attempts)
    }

    /// Extends those of these leases that are still held, and returns them.
    pub(super) fn renew(&mut self, leases: &[Lease], until: Instant) -> Vec<Lease> {
        let mut renewed = Vec::new();
        for lease in leases {
            if let Some(row) = self.held(lease) {
                row.due = until;
                renewed.push(lease.clone());
            }
        }
        renewed
    }

    /// Makes rows due again immediately. Returns how many were held.
    pub(super) fn release(&mut self, leases: &[Lease], now: Instant) -> u64 {
        leases.iter().filter(|lease| self.put_off(lease, now, None)).count() as u64
    }

    /// Makes a row due again at a later time. Returns false if the lease was not held.
    pub(super) fn put_off(&mut self, lease: &Lease, due: Instant, parked: Option<&str>) -> bool {
        if let Some(row) = self.rows.get_mut(&lease.id) {
            row.end(lease.token);
        }
        let Some(row) = self.held(lease) else { return false };
        (row.token, row.due, row.parked) = (None, due, parked.map(str::to_owned));
        true
    }

    /// True if a held row has been put off for as long as the longest limit that was used meanwhile, `limit` included.
    /// Starts that time if it is not running.
    pub(super) fn was_put_off_for(&mut self, lease: &Lease, limit: Duration, now: Instant) -> bool {
        let Some(row) = self.held(lease) else { return false };
        let put_off = row.put_off.get_or_insert(PutOff { since: now, limit });
        put_off.limit = put_off.limit.max(limit);
        now - put_off.since >= put_off.limit
    }

    /// Ends the time for which a row was put off, because it has another outcome now.
    pub(super) fn end_putting_off(&mut self, lease: &Lease) {
        if let Some(row) = self.held(lease) {
            row.put_off = None;
        }
    }

    /// The names for which rows are parked.
    pub(super) fn parked(&self) -> BTreeSet<String> {
        let names: BTreeSet<&String> = self.rows.values().filter_map(|row| row.parked.as_ref()).collect();
        names.into_iter().take(Claimed::MAX_PARKED_NAMES).cloned().collect()
    }

    /// Makes due up to `limit` rows that were parked for this route, oldest first. Returns their number.
    pub(super) fn unpark(&mut self, route: &str, limit: usize, now: Instant) -> u64 {
        let waits = |row: &&mut RowState| row.parked.as_deref() == Some(route) && row.token.is_none();
        let mut rows: Vec<&mut RowState> = self.rows.values_mut().filter(waits).collect();
        rows.sort_by_key(|row| row.order);
        rows.truncate(limit);
        rows.iter_mut().for_each(|row| (row.due, row.parked, row.put_off) = (now, None, None));
        rows.len() as u64
    }

    /// Stores the number of failed attempts.
    pub(super) fn set_attempts(&mut self, id: &EventId, attempts: u32) {
        if let Some(row) = self.rows.get_mut(id) {
            row.attempts = attempts;
        }
    }

    /// Counts a deferral: the handler needed more time.
    pub(super) fn add_deferral(&mut self, id: &EventId) {
        if let Some(row) = self.rows.get_mut(id) {
            row.deferrals = row.deferrals.saturating_add(1);
        }
    }

    /// Adds destinations that have received the event.
    pub(super) fn add_progress(&mut self, lease: &Lease, names: &[String]) {
        if let Some(row) = self.rows.get_mut(&lease.id).filter(|row| row.under_way.contains(&lease.token)) {
            row.progress.extend(names.iter().cloned());
        }
    }

    /// Forgets a row that has ended.
    pub(super) fn forget(&mut self, id: &EventId) {
        self.rows.remove(id);
    }

    /// Forgets the row with this key. A row with the same id and another key stays.
    pub(super) fn forget_row(&mut self, key: &RowKey) {
        if self.rows.get(&key.id).is_some_and(|row| row.key == *key) {
            self.rows.remove(&key.id);
        }
    }

    /// Ends all leases, because the lock of the table was lost and another process may have held it. Keys stay:
    /// deliveries that were not written back yet still need them.
    pub(super) fn forget_leases(&mut self, now: Instant) {
        for row in self.rows.values_mut() {
            // A row that waits for its time keeps it. Only leased rows become due.
            if row.token.take().is_some() {
                row.due = row.due.min(now);
            }
        }
    }

    /// Forgets rows that were not used for [`FORGET_AFTER`]. Scans all rows at most once a minute.
    pub(super) fn prune(&mut self, now: Instant) {
        const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
        if self.pruned.is_none_or(|last| now >= last + PRUNE_INTERVAL) {
            self.rows.retain(|_, row| now < row.due + FORGET_AFTER);
            self.pruned = Some(now);
        }
    }

    fn held(&mut self, lease: &Lease) -> Option<&mut RowState> {
        self.rows.get_mut(&lease.id).filter(|row| row.token == Some(lease.token))
    }
}

impl RowState {
    fn new(key: RowKey, order: u64, due: Instant) -> Self {
        let (under_way, progress) = (VecDeque::new(), BTreeSet::new());
        Self {
            key,
            order,
            due,
            token: None,
            under_way,
            attempts: 0,
            deferrals: 0,
            progress,
            parked: None,
            put_off: None,
        }
    }

    /// Remembers a new lease. Of a row whose leases expire again and again, only the last tokens are kept.
    fn begin(&mut self, token: LeaseToken) {
        const MAX_UNDER_WAY: usize = 16;
        self.under_way.truncate(MAX_UNDER_WAY - 1);
        self.under_way.push_front(token);
    }

    fn end(&mut self, token: LeaseToken) {
        self.under_way.retain(|other| *other != token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(id: &str) -> RowKey {
        RowKey { id: id.into(), parts: vec![id.to_owned()], written: None }
    }

    fn lease(id: &str, token: i64) -> Lease {
        Lease::new(id, 0, token.into())
    }

    fn ids(keys: &[RowKey]) -> Vec<&str> {
        keys.iter().map(|key| key.id.as_str()).collect()
    }

    /// Rows a, b and c, leased with token 7 for one second from `now`.
    fn three(now: Instant) -> Leases {
        let mut leases = Leases::default();
        for id in ["a", "b", "c"] {
            leases.lease(key(id), 7.into(), now + SECOND);
        }
        leases
    }

    #[test]
    fn leased_row_is_due_when_its_lease_has_expired() {
        let now = Instant::now();
        let leases = three(now);
        assert_eq!(leases.waiting(now), 3);
        assert_eq!(ids(&leases.free(vec![key("a"), key("d")], 9, now)), ["d"]);
        assert_eq!(ids(&leases.free(vec![key("a"), key("d")], 9, now + SECOND)), ["a", "d"]);
        assert_eq!(leases.waiting(now + SECOND), 0);
    }

    #[test]
    fn only_the_holder_changes_a_row() {
        let now = Instant::now();
        let mut leases = three(now);
        assert!(leases.renew(&[lease("a", 8)], now + 9 * SECOND).is_empty());
        assert_eq!(leases.release(&[lease("a", 8), lease("no", 7)], now), 0);
        assert!(!leases.put_off(&lease("a", 8), now, None));
        assert_eq!(leases.renew(&[lease("a", 7)], now + 9 * SECOND), [lease("a", 7)]);
        assert_eq!(leases.release(&[lease("a", 7)], now), 1);
        assert!(!leases.holds(&lease("a", 7)), "a release consumes the token");
    }

    #[test]
    fn deferrals_are_remembered_from_claim_to_claim() {
        let now = Instant::now();
        let mut leases = three(now);
        leases.add_deferral(&"a".into());
        leases.lease(key("a"), 8.into(), now + SECOND);
        assert_eq!((leases.history(&"a".into()).deferrals, leases.history(&"b".into()).deferrals), (1, 0));
    }

    #[test]
    fn failed_claim_releases_its_leases_and_no_others() {
        let now = Instant::now();
        let mut leases = three(now);
        leases.lease(key("d"), 8.into(), now + SECOND);
        leases.release_all(8.into(), now);
        assert_eq!(ids(&leases.free(vec![key("a"), key("d")], 9, now)), ["d"]);
        leases.forget_but(7.into(), &["a".into(), "b".into()].into());
        let knows = |id: &str| leases.rows.contains_key(&EventId::from(id));
        assert!(!knows("c") && knows("d"));
    }

    #[test]
    fn parked_rows_return_oldest_first_up_to_the_limit() {
        let now = Instant::now();
        let mut leases = three(now);
        for id in ["c", "a", "b"] {
            assert!(leases.put_off(&lease(id, 7), now + 9 * SECOND, Some("mail")));
        }
        assert_eq!(leases.unpark("other", 9, now), 0);
        assert_eq!(leases.unpark("mail", 2, now), 2);
        assert_eq!(ids(&leases.free(vec![key("a"), key("b"), key("c")], 9, now)), ["a", "b"]);
    }

    #[test]
    fn row_claimed_since_it_was_parked_stays_leased() {
        let now = Instant::now();
        let mut leases = three(now);
        leases.put_off(&lease("a", 7), now, Some("mail"));
        leases.lease(key("a"), 8.into(), now + SECOND);
        assert_eq!(leases.unpark("mail", 9, now), 0);
    }

    /// On an unstable connection, attempts would be spent one after the other.
    #[test]
    fn lost_lock_does_not_make_waiting_rows_due() {
        let now = Instant::now();
        let mut leases = three(now);
        assert!(leases.put_off(&lease("a", 7), now + 9 * SECOND, None));
        leases.forget_leases(now);
        assert_eq!(ids(&leases.free(vec![key("a"), key("b")], 9, now)), ["b"]);
    }

    #[test]
    fn lost_lock_voids_every_lease_and_keeps_counts() {
        let now = Instant::now();
        let mut leases = three(now);
        leases.set_attempts(&"a".into(), 3);
        leases.add_progress(&lease("a", 7), &["mail".to_owned()]);
        leases.forget_leases(now);
        assert!(!leases.holds(&lease("a", 7)));
        assert_eq!(leases.waiting(now), 0);
        assert!(leases.key(&lease("a", 7)).is_some(), "what was delivered can still be written down");
        leases.lease(key("a"), 9.into(), now + SECOND);
        let history = leases.history(&"a".into());
        assert_eq!((history.attempts, history.progress.len()), (3, 1));
    }

    /// Two rows with the same id, for a key of two columns.
    fn twins() -> Vec<RowKey> {
        let key = |part: &str| RowKey {
            id: "a".into(),
            parts: vec![part.to_owned(), "a".to_owned()],
            written: None,
        };
        ["x", "y"].map(key).to_vec()
    }

    #[test]
    fn outcome_is_never_applied_to_another_row_with_the_same_id() {
        let now = Instant::now();
        let mut leases = Leases::default();
        let [x, y] = [twins()[0].clone(), twins()[1].clone()];
        leases.lease(x.clone(), 7.into(), now);
        assert!(leases.free(vec![y.clone()], 9, now).is_empty(), "the outcome of the first is not known yet");
        assert_eq!(leases.free(twins(), 9, now), twins()[..1], "that one may be tried again");
        leases.lease(x, 8.into(), now + SECOND);
        assert!(leases.put_off(&lease("a", 8), now, None));
        assert!(leases.free(vec![y.clone()], 9, now).is_empty(), "nor of its first lease");
        leases.forget(&"a".into());
        leases.lease(y.clone(), 9.into(), now + SECOND);
        assert!(leases.key(&lease("a", 7)).is_none(), "a late outcome is not of the second");
        leases.add_progress(&lease("a", 7), &["mail".to_owned()]);
        assert_eq!((leases.key(&lease("a", 9)), leases.history(&"a".into()).progress.len()), (Some(&y), 0));
    }

    #[test]
    fn rows_with_the_same_id_are_leased_one_after_the_other() {
        let now = Instant::now();
        let mut leases = Leases::default();
        let first = leases.free(twins(), 9, now);
        assert_eq!(first, twins()[..1]);
        leases.lease(first[0].clone(), 7.into(), now + SECOND);
        assert!(leases.free(twins(), 9, now).is_empty());
        leases.set_attempts(&"a".into(), 3);
        leases.lease(twins()[1].clone(), 8.into(), now + SECOND);
        assert_eq!(leases.history(&"a".into()).attempts, 0, "the other row's failures are not its own");
    }

    /// A node without a route for an event has a shorter limit than the node whose destination is busy.
    #[test]
    fn longest_put_off_limit_counts() {
        let now = Instant::now();
        for limits in [[9, 2], [2, 9]].map(|limits| limits.map(|seconds| seconds * SECOND)) {
            let mut leases = three(now);
            let mut is_over = |limit, at| leases.was_put_off_for(&lease("a", 7), limit, at);
            assert!(!is_over(limits[0], now) && !is_over(limits[1], now + SECOND));
            assert!(!is_over(2 * SECOND, now + 8 * SECOND), "{limits:?}");
            assert!(is_over(2 * SECOND, now + 9 * SECOND), "{limits:?}");
        }
    }

    #[test]
    fn put_off_limit_ends_with_its_time() {
        let now = Instant::now();
        let mut leases = three(now);
        assert!(!leases.was_put_off_for(&lease("a", 7), 9 * SECOND, now));
        leases.end_putting_off(&lease("a", 7));
        assert!(!leases.was_put_off_for(&lease("a", 7), SECOND, now + SECOND));
        assert!(leases.was_put_off_for(&lease("a", 7), SECOND, now + 2 * SECOND));
    }

    #[test]
    fn unused_rows_are_forgotten() {
        let now = Instant::now();
        let mut leases = three(now);
        leases.prune(now + SECOND);
        assert_eq!(leases.rows.len(), 3);
        leases.prune(now + 2 * FORGET_AFTER);
        assert_eq!(leases.rows.len(), 0);
    }
}
