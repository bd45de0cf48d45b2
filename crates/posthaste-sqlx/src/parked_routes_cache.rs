//! Cache of the names for which rows are parked, refreshed beside the claims.
//!
//! A row that was parked and returned leaves a dead entry in the index of parked rows. While any transaction on the
//! server holds an old snapshot, the server cannot remove such entries, and a query for the names steps over all of
//! them. Claims must not depend on that. So a refresh runs as a separate task and uses at most a tenth of the time, as
//! sweeps do. The claim that started it waits for a moment and then uses the names of the last successful refresh.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste::StoreError;
use tokio::time::{Instant, timeout};

/// After a refresh there is a pause of this many times its duration, and of at least one second.
const REST_FACTOR: u32 = 9;
const MIN_REST: Duration = Duration::from_secs(1);

/// Time limit of a refresh.
pub(crate) const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a claim waits for the refresh that it started.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// The names of one store. Clones share the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParkedNames(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The result of the last successful refresh.
    names: BTreeSet<String>,
    /// `None`: the next claim refreshes the names.
    next_refresh: Option<Instant>,
}

impl ParkedNames {
    /// The names for which rows are parked. Starts a refresh if it is time; a refresh that fails leaves the names
    /// unchanged.
    pub(crate) async fn names<F>(&self, read: impl FnOnce() -> F) -> BTreeSet<String>
    where
        F: Future<Output = Result<BTreeSet<String>, StoreError>> + Send + 'static,
    {
        if self.begin() {
            // The task continues when the claim stops waiting.
            let refreshing = tokio::spawn(self.clone().refresh(read()));
            let _ = timeout(CLAIM_WAIT, refreshing).await;
        }
        self.lock().names.clone()
    }

    /// Makes the next claim refresh the names, because an operator has changed something.
    pub(crate) fn forget(&self) {
        self.lock().next_refresh = None;
    }

    /// Returns true if the caller is to refresh now. The next refresh is planned for the case that this one never ends,
    /// so only one runs at a time.
    fn begin(&self) -> bool {
        let (mut state, now) = (self.lock(), Instant::now());
        let is_time = state.next_refresh.is_none_or(|at| at <= now);
        if is_time {
            state.next_refresh = Some(now + REFRESH_TIMEOUT * (1 + REST_FACTOR));
        }
        is_time
    }

    async fn refresh(self, read: impl Future<Output = Result<BTreeSet<String>, StoreError>>) {
        let started = Instant::now();
        let read = timeout(REFRESH_TIMEOUT, read).await.unwrap_or(Err(StoreError::Timeout(REFRESH_TIMEOUT)));
        let rest = (started.elapsed() * REST_FACTOR).max(MIN_REST);
        let mut state = self.lock();
        state.next_refresh = Some(Instant::now() + rest);
        match read {
            Ok(names) => state.names = names,
            Err(error) => tracing::warn!(
                %error,
                "cannot read which routes events are parked for, so events that another engine has parked \
                 wait longer; trying again in {rest:?}. If this continues, end the oldest transaction on \
                 the database, and check that this user may SELECT the column `parked`"
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// The names that a claim gets if a refresh finds these.
    async fn names_for_claim(parked: &ParkedNames, found: &[&str]) -> BTreeSet<String> {
        let found = set(found);
        parked.names(|| ready(Ok(found))).await
    }

    async fn after<T>(time: Duration, value: T) -> T {
        tokio::time::sleep(time).await;
        value
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_refreshed_once_a_second_and_after_a_change_by_an_operator() {
        let parked = ParkedNames::default();
        assert_eq!(names_for_claim(&parked, &["mail"]).await, set(&["mail"]));
        assert_eq!(names_for_claim(&parked, &["search"]).await, set(&["mail"]));
        parked.forget();
        assert_eq!(names_for_claim(&parked, &["search"]).await, set(&["search"]));
        tokio::time::sleep(MIN_REST).await;
        assert_eq!(names_for_claim(&parked, &[]).await, set(&[]));
    }

    #[tokio::test(start_paused = true)]
    async fn failed_refresh_keeps_the_names() {
        let parked = ParkedNames::default();
        names_for_claim(&parked, &["mail"]).await;
        tokio::time::sleep(MIN_REST).await;
        let failed = parked.names(|| ready(Err(StoreError::backend("broken", "no")))).await;
        assert_eq!(failed, set(&["mail"]));
        assert_eq!(
            names_for_claim(&parked, &["search"]).await,
            set(&["mail"]),
            "a failed refresh is followed by a pause too"
        );
        tokio::time::sleep(MIN_REST).await;
        assert_eq!(names_for_claim(&parked, &["search"]).await, set(&["search"]));
    }

    /// The claim stops waiting, and a later claim gets the names.
    #[tokio::test(start_paused = true)]
    async fn slow_refresh_delays_no_claim_and_uses_a_tenth_of_the_time() {
        let parked = ParkedNames::default();
        let (started, slow) = (Instant::now(), 3 * CLAIM_WAIT);
        assert_eq!(parked.names(|| after(slow, Ok(set(&["mail"])))).await, set(&[]));
        assert_eq!(started.elapsed(), CLAIM_WAIT);
        assert_eq!(names_for_claim(&parked, &["search"]).await, set(&[]), "one refresh at a time");
        tokio::time::sleep_until(started + slow * 2).await;
        assert_eq!(names_for_claim(&parked, &["search"]).await, set(&["mail"]));
        tokio::time::sleep_until(started + slow * (1 + REST_FACTOR) - Duration::from_millis(10)).await;
        assert_eq!(names_for_claim(&parked, &["search"]).await, set(&["mail"]), "it pauses");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(names_for_claim(&parked, &["search"]).await, set(&["search"]));
    }

    #[tokio::test(start_paused = true)]
    async fn endless_refresh_is_given_up() {
        let parked = ParkedNames::default();
        assert_eq!(parked.names(pending).await, set(&[]));
        tokio::time::sleep(REFRESH_TIMEOUT * (1 + REST_FACTOR) + Duration::from_millis(10)).await;
        assert_eq!(names_for_claim(&parked, &["mail"]).await, set(&["mail"]));
    }
}
