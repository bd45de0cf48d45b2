//! One row of the table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::index::IndexPosition;
use super::raw_row::RawRow;
use crate::event::{Event, EventParts, Headers};
use crate::row::{EventDetail, EventRow, Status, decode_headers};
use crate::store::{Lease, LeaseToken, Leased, Owner};
use crate::time::Timestamp;
use crate::writer::NewRow;

#[derive(Debug)]
pub(super) struct MemoryRow {
    pub(super) seq: i64,
    /// The fields that could be read. `unreadable` names the others.
    pub(super) event: Event,
    unreadable: Option<Box<str>>,
    pub(super) status: i64,
    pub(super) attempts: i64,
    pub(super) deferrals: u32,
    pub(super) lost_leases: u32,
    pub(super) replays: u32,
    pub(super) parked: Option<Arc<str>>,
    pub(super) progress: BTreeSet<String>,
    /// When the row is due. A leased row keeps the time at which it became due.
    pub(super) available_at: Timestamp,
    /// When its first delay ends. Before that the row does not count for `oldest_pending`.
    pub(super) first_due: Timestamp,
    pub(super) inserted_at: Timestamp,
    pub(super) done_at: Option<Timestamp>,
    pub(super) last_error: Option<String>,
    pub(super) put_off: Option<PutOff>,
    pub(super) hold: Option<Hold>,
    /// How often the row was written after its insert.
    pub(super) writes: u64,
}

/// Since when the row has been put off for a limited time, and the longest limit since then.
#[derive(Debug)]
pub(super) struct PutOff {
    since: Timestamp,
    limit: Duration,
}

/// `locked_by`, `lease_token`, `locked_at` and `lease_until`. They are set and cleared together.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) owner: Owner,
    pub(super) token: LeaseToken,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
}

impl MemoryRow {
    /// The row of an INSERT whose statement runs at `now`.
    pub(super) fn new(seq: i64, new: &NewRow, now: Timestamp) -> Self {
        let first_due = now + new.delay.unwrap_or(Duration::ZERO);
        let hold = new.lease.as_ref().map(|lease| Hold {
            owner: lease.owner.clone(),
            token: lease.token,
            since: now,
            until: now + lease.duration,
        });
        Self {
            seq,
            event: new.event.clone(),
            unreadable: None,
            status: Status::New.code().into(),
            attempts: 0,
            deferrals: 0,
            lost_leases: 0,
            replays: 0,
            parked: None,
            progress: BTreeSet::new(),
            available_at: first_due,
            first_due,
            inserted_at: now,
            done_at: None,
            last_error: None,
            put_off: None,
            hold,
            writes: 0,
        }
    }

    /// The row that another program wrote at `now`.
    pub(super) fn from_raw(seq: i64, raw: RawRow, now: Timestamp) -> Self {
        let (headers, unreadable) = read_body(&raw);
        let event = Event::from_parts(EventParts {
            id: raw.id,
            event_type: raw.event_type.into(),
            aggregate_type: raw.aggregate_type.into(),
            aggregate_id: raw.aggregate_id.map(Into::into),
            tenant_id: raw.tenant_id.map(Into::into),
            topic: raw.topic.map(Into::into),
            content_type: raw.content_type.map(Into::into),
            schema_version: raw.schema_version,
            headers,
            payload: raw.payload.unwrap_or_default(),
            occurred_at: raw.created_at.unwrap_or(now),
            available_at: None,
        });
        let mut row = Self::new(seq, &NewRow::new(event), now);
        row.unreadable = unreadable.map(Into::into);
        row.status = raw.status;
        row.attempts = raw.attempts;
        row.last_error = raw.last_error;
        row.inserted_at = raw.inserted_at.unwrap_or(now);
        row.available_at = raw.available_at.unwrap_or(now);
        row.first_due = row.available_at;
        row.done_at = raw.done_at;
        row
    }

    /// The status. An unknown code counts as NEW, so that an engine claims the row and reports it.
    pub(super) fn status(&self) -> Status {
        Status::from_code(self.status).unwrap_or(Status::New)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.status().is_pending()
    }

    pub(super) fn attempts(&self) -> u32 {
        u32::try_from(self.attempts.max(0)).unwrap_or(u32::MAX)
    }

    pub(super) fn is_held_by(&self, owner: &Owner, token: LeaseToken) -> bool {
        let held = self.hold.as_ref().is_some_and(|hold| hold.token == token && hold.owner == *owner);
        held && self.is_pending()
    }

    /// Whether an owner has the row on a lease that has not lapsed.
    pub(super) fn is_leased(&self, now: Timestamp) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.until > now)
    }

    /// When a claim may take the row: when it is due, or when its lease lapses.
    pub(super) fn claimable_at(&self) -> Timestamp {
        self.hold.as_ref().map_or(self.available_at, |hold| hold.until)
    }

    /// The row's position in the indexes.
    pub(super) fn index_position(&self) -> IndexPosition {
        match self.status() {
            Status::New | Status::Retry => {
                IndexPosition::Pending { claimable_at: self.claimable_at(), parked: self.parked.clone() }
            }
            Status::Done => IndexPosition::Done(self.done_at.unwrap_or(self.inserted_at)),
            Status::Dead => IndexPosition::Dead(self.done_at.unwrap_or(self.inserted_at)),
            Status::Archived => IndexPosition::Nowhere,
        }
    }

    /// Makes the row terminal and removes its lease.
    pub(super) fn finish(&mut self, status: Status, last_error: Option<String>, now: Timestamp) {
        self.status = status.code().into();
        self.done_at = Some(now);
        self.last_error = last_error;
        self.hold = None;
        self.parked = None;
    }

    /// Releases the row; it is due at `at`.
    pub(super) fn let_go(&mut self, at: Timestamp) {
        self.available_at = at;
        self.hold = None;
        self.parked = None;
    }

    /// Puts the row off for a limited time, which begins now unless it has begun already. Returns `false` if the time
    /// is over.
    pub(super) fn put_off(&mut self, limit: Duration, now: Timestamp) -> bool {
        let put_off = self.put_off.get_or_insert(PutOff { since: now, limit });
        put_off.limit = put_off.limit.max(limit);
        now.since(put_off.since) < put_off.limit
    }

    /// What is wrong with the row, without its payload and headers.
    pub(super) fn defect(&self) -> Option<String> {
        if Status::from_code(self.status).is_none() {
            return Some(format!("unknown status code {}", self.status));
        }
        if self.attempts < 0 {
            return Some(format!("negative attempts: {}", self.attempts));
        }
        self.unreadable.as_deref().map(str::to_owned)
    }

    pub(super) fn lease(&self, token: LeaseToken) -> Lease {
        Lease::new(self.event.id().clone(), self.seq, token)
    }

    pub(super) fn leased(&self, token: LeaseToken, now: Timestamp) -> Leased {
        Leased {
            lease: self.lease(token),
            event: self.event.delivered(),
            attempts: self.attempts(),
            deferrals: self.deferrals,
            lost_leases: self.lost_leases,
            replays: self.replays,
            age: now.since(self.inserted_at),
            progress: self.progress.clone(),
        }
    }

    pub(super) fn detail(&self) -> EventDetail {
        EventDetail::new(self.view(), self.event.clone())
    }

    /// The row as an operator sees it.
    pub(super) fn view(&self) -> EventRow {
        EventRow {
            status: self.status(),
            attempts: self.attempts(),
            deferrals: self.deferrals,
            lost_leases: self.lost_leases,
            replays: self.replays,
            parked: self.parked.as_deref().map(str::to_owned),
            progress: self.progress.clone(),
            available_at: self.available_at,
            lease_until: self.hold.as_ref().map(|hold| hold.until),
            inserted_at: self.inserted_at,
            done_at: self.done_at,
            last_error: self.last_error.clone(),
            locked_by: self.hold.as_ref().map(|hold| hold.owner.as_str().to_owned()),
            locked_at: self.hold.as_ref().map(|hold| hold.since),
            malformed: self.defect(),
            ..EventRow::of(self.seq, &self.event)
        }
    }
}

fn read_body(raw: &RawRow) -> (Headers, Option<String>) {
    match decode_headers(raw.headers.as_deref()) {
        Ok(headers) if raw.payload.is_some() => (headers, None),
        Ok(headers) => (headers, Some("the row has no payload".to_owned())),
        Err(defect) => (Headers::new(), Some(defect)),
    }
}
