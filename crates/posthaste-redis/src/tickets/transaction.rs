//! Expiry times that are recorded in the transaction that mints the ticket.

use posthaste::{StoreError, Timestamp};

use super::record;
use crate::RedisTx;
use crate::tx::{CommandResults, PendingExpiry};

impl RedisTx {
    /// Adds the expiry time of a ticket to the transaction, as
    /// [`RedisExpiry::record_expiry_due`](crate::tickets::RedisExpiry::record_expiry_due) records it. Nothing is sent
    /// yet, and the command has no place in the [`Replies`](crate::Replies).
    ///
    /// On a cluster the ticket must have the same [`tag`](crate::RedisStore::tag) as the events of the transaction.
    /// Otherwise this fails.
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

    /// The tickets whose expiry time was not recorded.
    pub(crate) fn unrecorded_expiries(
        &self,
        results: &mut CommandResults,
        cause: &mut Option<StoreError>,
    ) -> Vec<String> {
        let mut unrecorded = Vec::new();
        for PendingExpiry { ticket_id, place, .. } in &self.expiries {
            if let Err(error) = results.take(*place) {
                unrecorded.push(ticket_id.clone());
                cause.get_or_insert(error);
            }
        }
        unrecorded
    }
}
