//! The state of a row: a text of twelve fields separated by tabs. `prelude.lua` documents the fields and writes them.

use std::collections::BTreeSet;

use posthaste::{EventDetail, EventRow, Status, Timestamp};

use crate::event_body::{self, DecodedEvent, Extent};
use crate::field_escape::unescape;
use crate::keys::StreamId;

/// A parsed state. `None`: the field is empty or cannot be parsed.
#[derive(Debug, Default)]
pub(crate) struct RowState {
    status: Option<i64>,
    attempts: Option<i64>,
    pub(crate) deferrals: u32,
    pub(crate) lost: u32,
    pub(crate) replays: u32,
    pub(crate) sid: StreamId,
    done_at: Option<Timestamp>,
    locked_at: Option<Timestamp>,
    owner: Option<String>,
    pub(crate) parked: Option<String>,
    pub(crate) progress: BTreeSet<String>,
    error: Option<String>,
}

impl RowState {
    /// Parses a state. A field that was edited and is invalid becomes `None` or 0.
    pub(crate) fn parse(text: &str) -> Self {
        let mut fields = text.splitn(12, '\t');
        let mut next = || fields.next().unwrap_or_default();
        let count = |text: &str| text.parse::<u64>().map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
        let time = |text: &str| text.parse().ok().map(Timestamp::from_micros);
        let status = next().parse().ok();
        let sid = StreamId::from_sort_key(next()).unwrap_or_default();
        let mut lease = next().split(' ').skip(1);
        let owner = lease.next().map(unescape);
        let locked_at = lease.next().and_then(time);
        let attempts = next().parse().ok();
        let (deferrals, lost, replays) = (count(next()), count(next()), count(next()));
        let done_at = time(next());
        // `put_off`, which only the scripts use.
        next();
        let parked = Some(next()).filter(|route| !route.is_empty()).map(unescape);
        let progress = next().split(',').filter(|name| !name.is_empty()).map(unescape).collect();
        let error = Some(next()).filter(|error| !error.is_empty()).map(str::to_owned);
        Self {
            status,
            attempts,
            deferrals,
            lost,
            replays,
            sid,
            done_at,
            locked_at,
            owner,
            parked,
            progress,
            error,
        }
    }

    pub(crate) fn attempts(&self) -> u32 {
        u32::try_from(self.attempts.unwrap_or(0).max(0)).unwrap_or(u32::MAX)
    }

    pub(crate) fn inserted_at(&self) -> Timestamp {
        Timestamp::from_micros(self.sid.ms.saturating_mul(1000))
    }

    /// The status; an unknown code is shown as NEW.
    fn status(&self) -> Status {
        self.status.and_then(Status::from_code).unwrap_or(Status::New)
    }

    /// What is wrong with the state, if anything.
    pub(crate) fn defect(&self) -> Option<String> {
        match (self.status, self.attempts) {
            (None, _) => Some("the state of the row cannot be read".to_owned()),
            (Some(code), _) if Status::from_code(code).is_none() => {
                Some(format!("unknown status code {code}"))
            }
            (_, Some(attempts)) if attempts < 0 => Some(format!("negative attempts: {attempts}")),
            _ => None,
        }
    }
}

/// A row as a script returns it for an operator.
pub(crate) struct AdminRow {
    pub(crate) id: String,
    /// `None` while the row is an arrival that no script has indexed.
    pub(crate) state: Option<String>,
    /// Due time in microseconds; `None` for a row that has ended.
    pub(crate) due: Option<i64>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) shard: u16,
}

impl AdminRow {
    pub(crate) fn detail(&self, extent: Extent) -> EventDetail {
        let state = RowState::parse(self.state.as_deref().unwrap_or("0"));
        let DecodedEvent { event, payload_bytes, defect } =
            event_body::decode(&self.id, self.body.as_deref(), state.inserted_at(), extent);
        let mut row = EventRow::of(state.sid.seq(self.shard), &event);
        row.payload_bytes = payload_bytes;
        row.status = state.status();
        row.attempts = state.attempts();
        row.deferrals = state.deferrals;
        row.lost_leases = state.lost;
        row.replays = state.replays;
        let due = self.due.map(Timestamp::from_micros).or(state.done_at);
        row.available_at = due.unwrap_or(state.inserted_at());
        // One score per row: the due time, or the end of the lease.
        row.lease_until = due.filter(|_| state.owner.is_some());
        row.inserted_at = state.inserted_at();
        row.done_at = state.done_at;
        row.malformed = state.defect().or(defect);
        row.parked = state.parked;
        row.progress = state.progress;
        row.last_error = state.error;
        row.locked_by = state.owner;
        row.locked_at = state.locked_at;
        EventDetail::new(row, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_parsed_field_by_field() {
        let state = RowState::parse(
            "2\t1700000000000-17\t99 me%2C%20you 1700000000000001\t3\t1\t4\t5\t\t1700000000000002\tmail\ta,b%2Cc\tno\tway",
        );
        assert_eq!((state.status(), state.attempts(), state.deferrals), (Status::Retry, 3, 1));
        assert_eq!((state.lost, state.replays), (4, 5));
        assert_eq!(state.sid, StreamId { ms: 1_700_000_000_000, n: 7 });
        assert_eq!((state.owner.as_deref(), state.parked.as_deref()), (Some("me, you"), Some("mail")));
        assert!(state.progress.iter().eq(["a", "b,c"]));
        assert_eq!((state.done_at, state.error.as_deref()), (None, Some("no\tway")));
        assert_eq!(state.defect(), None);
    }

    #[test]
    fn invalid_state_is_reported_as_a_defect() {
        for (text, defect) in [
            ("", "the state of the row cannot be read"),
            ("?", "the state of the row cannot be read"),
            ("77", "unknown status code 77"),
            ("0\t\t\t-1", "negative attempts: -1"),
        ] {
            assert_eq!(RowState::parse(text).defect().as_deref(), Some(defect), "{text:?}");
        }
    }
}
