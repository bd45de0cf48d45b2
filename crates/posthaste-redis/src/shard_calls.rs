//! Calls to shards: each stands for itself, and one that does not answer keeps no other waiting for long.

use std::time::Duration;

use posthaste::StoreError;
use redis::FromRedisValue;
use tokio::time::timeout;

use crate::RedisStore;
use crate::error::is_call_unanswered;
use crate::keys::Shard;
use crate::scripts::ScriptCall;

/// How long bodies may be on their way. An engine gives up sooner, after its `store_timeout`.
const BODIES_TIMEOUT: Duration = Duration::from_secs(60);

impl RedisStore {
    /// Calls a shard, and notes whether it answered.
    pub(crate) async fn call_shard<T: FromRedisValue>(
        &self,
        shard: &Shard,
        call: &ScriptCall<'_>,
    ) -> Result<T, StoreError> {
        self.with_backoff(shard, call.run(self.connections())).await
    }

    /// The same for a call whose answer holds bodies.
    pub(crate) async fn call_shard_for_bodies<T: FromRedisValue>(
        &self,
        shard: &Shard,
        call: &ScriptCall<'_>,
    ) -> Result<T, StoreError> {
        self.with_backoff(shard, call.run_for_bodies(self.connections(), shard)).await
    }

    async fn with_backoff<T>(
        &self,
        shard: &Shard,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let unanswered = self.0.backoffs.start_call(shard.number);
        let answer = call.await;
        if !answer.as_ref().is_err_and(is_call_unanswered) {
            unanswered.answered();
        }
        answer
    }

    /// The shards that answer, or all where none does. Those whose back-off is over are probed meanwhile; no call waits
    /// for that.
    pub(crate) fn responding_shards(&self) -> Vec<&Shard> {
        for shard in self.0.backoffs.take_expired() {
            tokio::spawn(probe(self.clone(), shard));
        }
        let shards = self.keys().shards();
        let responding: Vec<&Shard> =
            shards.iter().filter(|shard| !self.0.backoffs.is_backing_off(shard.number)).collect();
        if responding.is_empty() { shards.iter().collect() } else { responding }
    }

    /// The same, beginning with another one each time, or a small limit would starve the last ones.
    pub(crate) fn responding_shards_in_turn(&self) -> Vec<&Shard> {
        let mut shards = self.responding_shards();
        let first = self.next_turn() % shards.len();
        shards.rotate_left(first);
        shards
    }

    /// Whether a shard answers.
    pub(crate) fn is_any_shard_responding(&self) -> bool {
        self.keys().shards().iter().any(|shard| !self.0.backoffs.is_backing_off(shard.number))
    }
}

/// Finds out whether a shard answers again.
async fn probe(store: RedisStore, number: u16) {
    let shard = &store.keys().shards()[usize::from(number)];
    let call = store.scripts().count.on(shard, None).arg(("", 0));
    if store.call_shard::<redis::Value>(shard, &call).await.is_ok() {
        tracing::info!(shard = number, "a shard of the outbox answers again");
        store.wake_here();
    }
}

/// What the shards said that answered: one that failed hides nothing of the others. An error if none did.
pub(crate) fn successful<T>(answers: Vec<Result<T, StoreError>>) -> Result<Vec<T>, StoreError> {
    let (mut said, mut failure) = (Vec::with_capacity(answers.len()), None);
    for answer in answers {
        match answer {
            Ok(answer) => said.push(answer),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if said.is_empty() => return Err(error),
        Some(error) => tracing::warn!(%error, "a shard of the outbox failed; the others go on"),
        None => {}
    }
    Ok(said)
}

/// Bounds a call whose replies hold bodies.
pub(crate) async fn within_bodies_timeout<T>(
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(BODIES_TIMEOUT, call).await.unwrap_or(Err(StoreError::Timeout(BODIES_TIMEOUT)))
}
