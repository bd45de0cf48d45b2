//! The plan of a seed: the world and its faults.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;

/// The choices of one seed.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Strict mode, without anything that may let later events overtake.
    pub(crate) strict: bool,
    pub(crate) nodes: usize,
    pub(crate) transactions: usize,
    pub(crate) workers: usize,
    pub(crate) hot: usize,
    pub(crate) cold: usize,
    pub(crate) batch: usize,
    pub(crate) max_attempts: u32,
    /// No faults at all. Then every event is delivered exactly once.
    pub(crate) calm: bool,
    /// Deliveries that fail in one way or another, in percent.
    pub(crate) bad_deliveries: u32,
    /// Store calls that go wrong, in percent.
    pub(crate) bad_calls: u32,
    /// How often the destination of route `a` goes away for a while.
    pub(crate) outages: u32,
    pub(crate) crashes: u32,
    pub(crate) shutdowns: u32,
    pub(crate) clock_steps: u32,
    pub(crate) pauses: u32,
    /// Events that end the process that delivers them.
    pub(crate) poison: u32,
    /// How often the store loses its last rows and assigns their numbers again.
    pub(crate) lost_tails: u32,
    /// The most bytes in the queues and deliveries of a node.
    pub(crate) bytes: usize,
}

impl Plan {
    /// The largest payload of an event, which is much more than the smallest.
    pub(crate) const MAX_PAYLOAD_BYTES: usize = 20_000;

    pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(9);
    pub(crate) const HOT_LEASE_DURATION: Duration = Duration::from_secs(6);

    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let calm = rng.u32(0..5) == 0;
        let mut sometimes = |most: u32| if calm || rng.bool() { 0 } else { rng.u32(1..=most) };
        let (bad_deliveries, bad_calls, outages, crashes) =
            (sometimes(40), sometimes(15), sometimes(3), sometimes(3));
        let (shutdowns, clock_steps, pauses) = (sometimes(2), sometimes(4), sometimes(2));
        let (poison, lost_tails) = (sometimes(2), sometimes(2));
        Self {
            strict: false,
            nodes: rng.usize(1..=2),
            transactions: rng.usize(10..=60),
            workers: rng.usize(1..=4),
            hot: rng.usize(1..=20),
            cold: rng.usize(1..=20),
            batch: rng.usize(1..=10),
            max_attempts: rng.u32(1..=6),
            calm,
            bad_deliveries,
            bad_calls,
            outages,
            crashes,
            shutdowns,
            clock_steps,
            pauses,
            poison,
            lost_tails,
            bytes: rng.usize(Self::MAX_PAYLOAD_BYTES..=10 * Self::MAX_PAYLOAD_BYTES),
        }
    }

    /// The same world in strict mode. Not with a store's clock that is set back, because rows that were due would have
    /// to wait, and rows that wait may be overtaken. Nor with numbers that are assigned twice, because they have no
    /// order.
    pub(crate) fn strict(seed: u64) -> Self {
        Self { strict: true, clock_steps: 0, lost_tails: 0, poison: 0, ..Self::new(seed) }
    }

    /// How long after everything has healed the last event may wait. Parked events come back immediately; an event that
    /// ends its processes takes time until it is DEAD.
    pub(crate) fn time_to_settle(&self) -> Duration {
        match self.poison {
            0 => Duration::from_secs(15 * 60),
            _ => Duration::from_secs(2 * 3600),
        }
    }

    /// The most events that one engine may hold: hot + cold + workers × batch + one settle batch, and those that wait
    /// for the confirmation of their commit.
    pub(crate) fn max_held(&self) -> usize {
        self.hot + self.cold + self.workers * self.batch + 1000
    }
}

/// Random numbers for the world, independent of the engine's own.
#[derive(Clone, Debug)]
pub(crate) struct Randomness(Rc<RefCell<Rng>>);

impl Randomness {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Rng::with_seed(seed))))
    }

    pub(crate) fn percent(&self, chance: u32) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn below(&self, limit: u32) -> u32 {
        self.0.borrow_mut().u32(0..limit.max(1))
    }

    pub(crate) fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.0.borrow_mut().u64(0..=most))
    }
}
