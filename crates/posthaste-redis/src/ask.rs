//! Asking shards: each stands for itself, and one that does not answer keeps no other waiting for long.

use std::time::Duration;

use posthaste::StoreError;
use redis::FromRedisValue;
use tokio::time::timeout;

use crate::RedisStore;
use crate::error::has_found_silence;
use crate::keys::Shard;
use crate::scripts::Call;

/// How long bodies may be on their way. An engine gives up sooner, after its `store_timeout`.
const BODIES: Duration = Duration::from_secs(60);

impl RedisStore {
    /// Asks a shard, and notes whether it answered.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        shard: &Shard,
        call: &Call<'_>,
    ) -> Result<T, StoreError> {
        self.noting(shard, call.run(self.link())).await
    }

    /// The same for a call whose answer holds bodies.
    pub(crate) async fn ask_for_bodies<T: FromRedisValue>(
        &self,
        shard: &Shard,
        call: &Call<'_>,
    ) -> Result<T, StoreError> {
        self.noting(shard, call.run_for_bodies(self.link(), shard)).await
    }

    async fn noting<T>(
        &self,
        shard: &Shard,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let asked = self.0.rests.ask(shard.number);
        let answer = call.await;
        if !answer.as_ref().is_err_and(has_found_silence) {
            asked.answered();
        }
        answer
    }

    /// The shards that answer, or all where none does. Those whose rest is over are looked at meanwhile; no call
    /// waits for that.
    pub(crate) fn awake(&self) -> Vec<&Shard> {
        for shard in self.0.rests.take_rested() {
            tokio::spawn(look_again(self.clone(), shard));
        }
        let shards = self.keys().shards();
        let awake: Vec<&Shard> =
            shards.iter().filter(|shard| !self.0.rests.is_resting(shard.number)).collect();
        if awake.is_empty() { shards.iter().collect() } else { awake }
    }

    /// The same, beginning with another one each time, or a small limit would starve the last ones.
    pub(crate) fn in_turn(&self) -> Vec<&Shard> {
        let mut shards = self.awake();
        let first = self.next_turn() % shards.len();
        shards.rotate_left(first);
        shards
    }

    /// Whether a shard answers.
    pub(crate) fn is_any_awake(&self) -> bool {
        self.keys().shards().iter().any(|shard| !self.0.rests.is_resting(shard.number))
    }
}

/// Looks whether a shard answers again.
async fn look_again(store: RedisStore, number: u16) {
    let shard = &store.keys().shards()[usize::from(number)];
    let call = store.scripts().count.on(shard).arg("").arg("").arg(0);
    if store.ask::<redis::Value>(shard, &call).await.is_ok() {
        tracing::info!(shard = number, "a shard of the outbox answers again");
        store.wake_here();
    }
}

/// What the shards said that answered: one that failed hides nothing of the others. An error if none did.
pub(crate) fn answered<T>(answers: Vec<Result<T, StoreError>>) -> Result<Vec<T>, StoreError> {
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

/// Bounds a call whose answers hold bodies.
pub(crate) async fn in_time<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(BODIES, call).await.unwrap_or(Err(StoreError::Timeout(BODIES)))
}
