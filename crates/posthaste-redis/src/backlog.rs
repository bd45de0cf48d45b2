//! Backlog: counts pending rows by type or by tenant, over at most [`Backlog::MAX_ROWS`] rows.

use std::collections::HashMap;

use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, Filter};
use posthaste::{EventRow, Status, StoreError, Timestamp};

use crate::RedisStore;
use crate::page::{Direction, PAGE_ROWS, ScanBudget};

impl RedisStore {
    pub(crate) async fn read_backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError> {
        let (waiting, arrivals) = self.count_pending().await?;
        self.index_arrivals_up_to(Backlog::MAX_ROWS.saturating_sub(waiting as usize)).await?;
        let (pending, now) = (waiting + arrivals, self.clock().await?);
        let (mut groups, mut after, mut budget) =
            (HashMap::new(), None, ScanBudget::at_most(Backlog::MAX_ROWS));
        loop {
            let limit = PAGE_ROWS.min(Backlog::MAX_ROWS - budget.rows);
            // `New` selects the list of all pending rows, also those that are RETRY.
            let page = self.page(&Filter::status(Status::New), after, limit, Direction::OldestFirst).await?;
            budget.add(&page);
            page.rows.iter().for_each(|row| add(&mut groups, row, by, now));
            match page.next {
                Some(next) if !budget.is_over() => after = Some(next),
                _ => break,
            }
        }
        Ok(Backlog::largest(groups.into_values().collect(), limit, pending > budget.rows as u64))
    }
}

fn add(groups: &mut HashMap<Option<String>, BacklogGroup>, row: &EventRow, by: BacklogBy, now: Timestamp) {
    let key = match by {
        BacklogBy::Type => Some(format!("{}:{}", row.aggregate_type, row.event_type)),
        BacklogBy::Tenant => row.tenant_id.clone(),
    };
    let new = |key: &Option<String>| BacklogGroup::new(key.clone(), 0, None);
    let group = groups.entry(key).or_insert_with_key(new);
    group.count += 1;
    group.oldest = group.oldest.max(Some(now.since(row.inserted_at)));
}
