//! Expiries that are recorded in the transaction of the mint.

use posthaste::{StoreError, Timestamp};

use super::record;
use crate::RedisTx;
use crate::tx::{Answers, PendingExpiry};

impl RedisTx {
    /// Records when a ticket expires, as
    /// [`RedisExpiry::record_expiry_due`](crate::tickets::RedisExpiry::record_expiry_due) does, together with its
    /// mint. Nothing is sent yet, and its reply is not among the [`Replies`](crate::Replies).
    ///
    /// On a cluster the ticket must have the same [`tag`](crate::RedisStore::tag) as the events.
    // S1-32
    pub fn record_expiry_due(&mut self, ticket_id: &str, expires_at: Timestamp) -> Result<(), StoreError> {
        let keys = self.writer.store().keys();
        let shard = keys.of_aggregate(ticket_id).number;
        self.refuse_other_slots([shard])?;
        let cmd = record(keys, ticket_id, expires_at);
        let place = self.pipeline.len();
        self.pipeline.add_command(cmd);
        self.expiries.push(PendingExpiry { ticket_id: ticket_id.to_owned(), shard, place });
        Ok(())
    }

    /// The tickets that were not recorded.
    pub(crate) fn unrecorded_expiries(
        &self,
        answers: &mut Answers,
        cause: &mut Option<StoreError>,
    ) -> Vec<String> {
        let mut unrecorded = Vec::new();
        for PendingExpiry { ticket_id, place, .. } in &self.expiries {
            if let Err(error) = answers.take(*place) {
                unrecorded.push(ticket_id.clone());
                cause.get_or_insert(error);
            }
        }
        unrecorded
    }
}
