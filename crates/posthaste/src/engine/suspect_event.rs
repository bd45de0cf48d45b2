//! Suspects: events that may be what kills the processes that own them. They are delivered one at a time, with nothing
//! else running.
//!
//! Every event that is held when a process dies loses a lease, and only one of them can be to blame. So claims raise
//! the count of lost leases only up to [`SUSPECT_LOST_LEASES`]. A row with that many is a *suspect*: from then on each
//! start of its delivery is counted in the store before it begins, and only one suspect runs at a time, after
//! everything else has ended. At [`MAX_LOST_LEASES`] the event is DEAD.
//!
//! A process that keeps dying for another reason must not kill an event. So the more leases a suspect has lost, the
//! longer its engine must have lived before it starts the suspect.
//!
//! [`MAX_LOST_LEASES`]: crate::store::MAX_LOST_LEASES

use std::time::Duration;

use tokio::time::Instant;

use super::queued_event::QueuedEvent;
use crate::store::SUSPECT_LOST_LEASES;

/// The longest time for which other events wait for running deliveries to end. One slow delivery and a suspect together
/// must not keep every route idle. After that time the other events may start again, for just as long.
const MAX_BLOCK_TIME: Duration = Duration::from_secs(5);

/// How long an engine must have lived before it starts an event that has lost this many leases.
pub(super) fn proving_time(lost_leases: u32, lease: Duration) -> Duration {
    lease * (lost_leases + 1).saturating_sub(SUSPECT_LOST_LEASES)
}

/// The queue's slot for one suspect.
#[derive(Debug, Default)]
pub(super) struct SuspectSlot {
    state: SlotState,
    /// Until this instant only other events start, so that one slow suspect does not follow another.
    rest_until: Option<Instant>,
}

#[derive(Debug, Default)]
enum SlotState {
    #[default]
    Empty,
    Waiting {
        item: Box<QueuedEvent>,
        not_before: Instant,
        /// `Some` from the instant at which it was first allowed to begin: nothing else starts, so that what runs can
        /// end.
        blocking_since: Option<Instant>,
    },
    Running {
        blocking_since: Instant,
    },
}

/// What a worker may take, as far as the suspect is concerned.
#[derive(Debug)]
pub(super) enum SuspectTurn {
    /// The suspect begins now.
    Begin(Box<QueuedEvent>),
    /// Nothing: the suspect runs, or it waits until this instant for other deliveries to end.
    Block(Option<Instant>),
    /// Any other event. The suspect may begin at this instant, if there is one.
    Others(Option<Instant>),
}

impl SuspectSlot {
    /// Whether a suspect may enter.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        matches!(self.state, SlotState::Empty) && self.rest_until.is_none_or(|until| until <= now)
    }

    pub(super) fn put(&mut self, item: QueuedEvent, not_before: Instant) {
        self.state = SlotState::Waiting { item: Box::new(item), not_before, blocking_since: None };
    }

    /// Decides who is next. `idle`: no delivery is under way, and nothing has to come before the suspect.
    pub(super) fn turn(&mut self, now: Instant, idle: bool) -> SuspectTurn {
        match &mut self.state {
            SlotState::Empty => SuspectTurn::Others(None),
            SlotState::Running { .. } => SuspectTurn::Block(None),
            SlotState::Waiting { not_before, .. } if *not_before > now => {
                SuspectTurn::Others(Some(*not_before))
            }
            SlotState::Waiting { blocking_since, not_before, .. } => {
                let since = *blocking_since.get_or_insert(now);
                let until = since + MAX_BLOCK_TIME;
                if !idle && now >= until {
                    (*blocking_since, *not_before) = (None, now + MAX_BLOCK_TIME);
                    return SuspectTurn::Others(Some(*not_before));
                }
                if !idle {
                    return SuspectTurn::Block(Some(until));
                }
                let blocking_since = since;
                match std::mem::replace(&mut self.state, SlotState::Running { blocking_since }) {
                    SlotState::Waiting { item, .. } => SuspectTurn::Begin(item),
                    _ => SuspectTurn::Block(None),
                }
            }
        }
    }

    /// A delivery has ended. If it was the suspect's, other events get their turn for as long as the suspect kept them
    /// waiting. Returns until when.
    pub(super) fn ended(&mut self, now: Instant) -> Option<Instant> {
        let SlotState::Running { blocking_since } = self.state else { return None };
        self.state = SlotState::Empty;
        self.rest_until = Some(now + now.duration_since(blocking_since));
        self.rest_until
    }

    /// Whether a suspect waits for other deliveries to end.
    pub(super) fn is_blocking(&self) -> bool {
        matches!(self.state, SlotState::Waiting { blocking_since: Some(_), .. })
    }

    /// Removes a suspect that has not begun.
    pub(super) fn take(&mut self) -> Option<QueuedEvent> {
        match std::mem::take(&mut self.state) {
            SlotState::Waiting { item, .. } => Some(*item),
            state => {
                self.state = state;
                None
            }
        }
    }
}
