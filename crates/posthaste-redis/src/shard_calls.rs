//! Calls to shards. Each shard has its own back-off, and a shard that does not reply does not block others.

use std::time::Duration;

use posthaste::StoreError;
use redis::FromRedisValue;
use tokio::time::timeout;

use crate::RedisStore;
use crate::error::is_call_without_reply;
use crate::keys::Shard;
use crate::scripts::ScriptCall;

/// Maximum time for a reply with bodies. An engine gives up earlier, after its `store_timeout`.
const BODIES_TIMEOUT: Duration = Duration::from_secs(60);

impl RedisStore {
    /// Calls a shard, and records whether it replied.
    pub(crate) async fn call_shard<T: FromRedisValue>(
        &self,
        shard: &Shard,
        call: &ScriptCall<'_>,
    ) -> Result<T, StoreError> {
        self.with_backoff(shard, call.run(self.connections())).await
    }

    /// Calls a shard with a script whose reply contains bodies.
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
        let pending = self.0.backoffs.start_call(shard.number);
        let reply = call.await;
        if !reply.as_ref().is_err_and(is_call_without_reply) {
            pending.replied();
        }
        reply
    }

    /// The shards that reply, or all shards if none does. Starts probes of shards whose back-off has ended, in the
    /// background.
    pub(crate) fn responding_shards(&self) -> Vec<&Shard> {
        for shard in self.0.backoffs.take_expired() {
            tokio::spawn(probe(self.clone(), shard));
        }
        let shards = self.keys().shards();
        let responding: Vec<&Shard> =
            shards.iter().filter(|shard| !self.0.backoffs.is_backing_off(shard.number)).collect();
        if responding.is_empty() { shards.iter().collect() } else { responding }
    }

    /// The shards that reply, starting with a different one each time. Otherwise a small limit would starve the last
    /// ones.
    pub(crate) fn responding_shards_in_turn(&self) -> Vec<&Shard> {
        let mut shards = self.responding_shards();
        let first = self.next_turn() % shards.len();
        shards.rotate_left(first);
        shards
    }

    /// Whether at least one shard replies.
    pub(crate) fn is_any_shard_responding(&self) -> bool {
        self.keys().shards().iter().any(|shard| !self.0.backoffs.is_backing_off(shard.number))
    }
}

/// Checks whether a shard replies again, with a call that counts no rows.
async fn probe(store: RedisStore, number: u16) {
    let shard = &store.keys().shards()[usize::from(number)];
    let call = store.scripts().count.on(shard, None).arg(("", 0));
    if store.call_shard::<redis::Value>(shard, &call).await.is_ok() {
        tracing::info!(shard = number, "a shard of the outbox replies again");
        store.wake_here();
    }
}

/// The values of the shards that succeeded. A failed shard is logged; an error is returned only if no shard succeeded.
pub(crate) fn successful<T>(results: Vec<Result<T, StoreError>>) -> Result<Vec<T>, StoreError> {
    let (mut values, mut failure) = (Vec::with_capacity(results.len()), None);
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if values.is_empty() => return Err(error),
        Some(error) => {
            tracing::warn!(%error, "a shard of the outbox failed; the other shards are still served");
        }
        None => {}
    }
    Ok(values)
}

/// Bounds a call whose replies contain bodies.
pub(crate) async fn within_bodies_timeout<T>(
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(BODIES_TIMEOUT, call).await.unwrap_or(Err(StoreError::Timeout(BODIES_TIMEOUT)))
}
