//! Statistics. The size of an index is the count of a kind; only the states of pending rows are counted row by row, and
//! above [`Stats::MAX_EXACT_COUNT`] a sample is extrapolated.

use futures_util::future::try_join_all;
use posthaste::StoreError;
use posthaste::admin::{PendingCounts, Stats};
use posthaste::store::Store as _;

use crate::RedisStore;
use crate::keys::Shard;

impl RedisStore {
    pub(crate) async fn read_stats(&self) -> Result<Stats, StoreError> {
        // Above `MAX_EXACT_COUNT` the result is an estimate anyway, so indexing all arrivals first would only cost
        // time.
        let (waiting, arrivals) = self.count_pending().await?;
        if waiting + arrivals <= Stats::MAX_EXACT_COUNT {
            self.index_all_arrivals().await?;
        }
        let mut stats = Stats::default();
        for counts in try_join_all(self.keys().shards().iter().map(|shard| self.count_in(shard))).await? {
            counts.add_to(&mut stats);
        }
        stats.estimated.pending = stats.new + stats.retry > Stats::MAX_EXACT_COUNT;
        stats.oldest_pending = self.oldest_pending(None).await?;
        stats.paused = self.paused().await?;
        Ok(stats)
    }

    /// Number of indexed pending rows, and of arrivals.
    pub(crate) async fn count_pending(&self) -> Result<(u64, u64), StoreError> {
        Ok(self
            .count_shards()
            .await?
            .iter()
            .fold((0, 0), |sum, one| (sum.0 + one.waiting, sum.1 + one.arrivals)))
    }

    pub(crate) async fn count_kinds(&self, kinds: &[&str]) -> Result<u64, StoreError> {
        let count = |counts: &ShardCounts| {
            let kind = |kind: &&str| match *kind {
                "waiting" => counts.waiting,
                "done" => counts.done,
                "dead" => counts.dead,
                _ => counts.archived,
            };
            kinds.iter().map(kind).sum::<u64>()
        };
        Ok(self.count_shards().await?.iter().map(count).sum())
    }

    /// The number of rows of each kind in every shard.
    async fn count_shards(&self) -> Result<Vec<ShardCounts>, StoreError> {
        try_join_all(self.keys().shards().iter().map(|shard| self.count_page(shard, "", 0))).await
    }

    async fn count_page(&self, shard: &Shard, after: &str, limit: u64) -> Result<ShardCounts, StoreError> {
        let call = self.scripts().count.on(shard, None).arg((after, limit));
        let (kinds, states, next): ([u64; 5], [u64; 6], String) = call.run(self.connections()).await?;
        let [waiting, done, dead, archived, arrivals] = kinds;
        Ok(ShardCounts { waiting, done, dead, archived, arrivals, states, next })
    }

    /// Counts the rows of one shard by kind, and its pending rows by state.
    async fn count_in(&self, shard: &Shard) -> Result<ShardCounts, StoreError> {
        let kinds = self.count_page(shard, "", 0).await?;
        if kinds.waiting > Stats::MAX_EXACT_COUNT {
            return self.sample(shard, kinds).await;
        }
        let mut total = self.count_page(shard, "", 1000).await?;
        while !total.next.is_empty() {
            let page = self.count_page(shard, &total.next, 1000).await?;
            total.add_states(&page);
            total.next = page.next;
        }
        Ok(total)
    }

    /// Reads rows at evenly spaced points of the insertion order.
    async fn sample(&self, shard: &Shard, mut total: ShardCounts) -> Result<ShardCounts, StoreError> {
        const SAMPLE_POINTS: u64 = 64;
        for point in 0..SAMPLE_POINTS {
            let rank = format!("#{}", total.waiting / SAMPLE_POINTS * point);
            total.add_states(&self.count_page(shard, &rank, 100).await?);
        }
        Ok(total)
    }
}

/// The counts of one shard.
struct ShardCounts {
    waiting: u64,
    done: u64,
    dead: u64,
    archived: u64,
    /// Events that are not indexed, because there are too many to wait for, or because the server is read-only.
    arrivals: u64,
    /// Numbers of pending rows: new, retried, due, leased, parked, scheduled.
    states: [u64; 6],
    /// The member to continue after; empty at the end.
    next: String,
}

impl ShardCounts {
    fn add_states(&mut self, page: &Self) {
        self.states.iter_mut().zip(page.states).for_each(|(sum, n)| *sum += n);
    }

    fn add_to(&self, stats: &mut Stats) {
        let pending = self.pending();
        stats.new += pending.new + self.arrivals;
        stats.retry += pending.retry;
        stats.done += self.done;
        stats.dead += self.dead;
        stats.archived += self.archived;
        stats.due += pending.due + self.arrivals;
        stats.leased += pending.leased;
        stats.parked += pending.parked;
        stats.scheduled += pending.scheduled;
    }

    /// The states of pending rows, extrapolated if only a sample was read.
    fn pending(&self) -> Stats {
        let [new, retry, due, leased, parked, scheduled] = self.states;
        let counts = PendingCounts { new, retry, due, leased, parked, scheduled };
        let mut pending = Stats::of_pending(counts);
        if self.waiting > Stats::MAX_EXACT_COUNT {
            pending.estimate_pending(self.waiting);
        }
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(waiting: u64, arrivals: u64) -> ShardCounts {
        let states = [90, 10, 70, 10, 15, 5];
        ShardCounts { waiting, done: 0, dead: 0, archived: 0, arrivals, states, next: String::new() }
    }

    #[test]
    fn sample_of_many_rows_is_extrapolated() {
        let mut stats = Stats::default();
        counts(1_000_000, 7).add_to(&mut stats);
        assert_eq!((stats.new, stats.retry), (900_007, 100_000));
        assert_eq!(
            (stats.due, stats.leased, stats.parked, stats.scheduled),
            (700_007, 100_000, 150_000, 50_000)
        );
    }

    #[test]
    fn exact_counts_are_not_extrapolated() {
        let mut stats = Stats::default();
        counts(100, 0).add_to(&mut stats);
        assert_eq!((stats.new, stats.retry, stats.due), (90, 10, 70));
    }
}
