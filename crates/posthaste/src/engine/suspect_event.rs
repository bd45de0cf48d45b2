//! The event that may be what kills its owners, delivered with nothing else beside it.
//!
//! Whatever is held when a process dies has lost a lease, and only one of those events can be to
//! blame. So claims count lost leases no further than [`SUSPECT_LOST_LEASES`]. A row that has so many is a
//! *suspect*: from then on each start of its delivery is counted in the store before it begins,
//! one suspect at a time, after everything else has ended. At [`MAX_LOST_LEASES`] it is DEAD.
//!
//! A process that dies for another reason, again and again, kills no event: the nearer a suspect
//! is to its end, the longer its engine must have lived before it begins.
//!
//! [`MAX_LOST_LEASES`]: crate::store::MAX_LOST_LEASES

use std::time::Duration;

use tokio::time::Instant;

use super::queued_event::QueuedEvent;
use crate::store::SUSPECT_LOST_LEASES;

/// Others wait at most so long for what runs to end. One slow delivery and a suspect together must not keep every
/// route idle; then the others have their turn first, for as long.
const MAX_BLOCK_TIME: Duration = Duration::from_secs(5);

/// How long an engine must have lived before it begins an event that has lost so many leases.
pub(super) fn proving_time(lost_leases: u32, lease: Duration) -> Duration {
    lease * (lost_leases + 1).saturating_sub(SUSPECT_LOST_LEASES)
}

/// The slot for one suspect in a queue.
#[derive(Debug, Default)]
pub(super) struct SuspectSlot {
    state: SlotState,
    /// The others have their turn until then: a suspect that takes long does not follow another.
    rest_until: Option<Instant>,
}

#[derive(Debug, Default)]
enum SlotState {
    #[default]
    Empty,
    Waiting {
        item: Box<QueuedEvent>,
        not_before: Instant,
        /// Since when nothing else is started, so that what runs can end.
        blocking_since: Option<Instant>,
    },
    Running {
        blocking_since: Instant,
    },
}

/// What a worker that looks for work has to know about the suspect.
#[derive(Debug)]
pub(super) enum SuspectTurn {
    /// It is begun now.
    Begin(Box<QueuedEvent>),
    /// Nothing may be started: it runs, or waits for others to end, for which it waits until this instant.
    Block(Option<Instant>),
    /// Others may be started; it may begin at this instant, if there is one.
    Others(Option<Instant>),
}

impl SuspectSlot {
    /// Whether a suspect may come in.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        matches!(self.state, SlotState::Empty) && self.rest_until.is_none_or(|until| until <= now)
    }

    pub(super) fn put(&mut self, item: QueuedEvent, not_before: Instant) {
        self.state = SlotState::Waiting { item: Box::new(item), not_before, blocking_since: None };
    }

    /// `idle`: nothing else runs, nor has to come first.
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

    /// A delivery has ended. If it was the suspect's, the others have their turn for as long as it
    /// kept them waiting; returns until when.
    pub(super) fn ended(&mut self, now: Instant) -> Option<Instant> {
        let SlotState::Running { blocking_since } = self.state else { return None };
        self.state = SlotState::Empty;
        self.rest_until = Some(now + now.duration_since(blocking_since));
        self.rest_until
    }

    /// Whether a suspect waits for others to end.
    pub(super) fn is_blocking(&self) -> bool {
        matches!(self.state, SlotState::Waiting { blocking_since: Some(_), .. })
    }

    /// Takes a suspect out that has not begun.
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
