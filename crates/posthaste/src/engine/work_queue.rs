//! The engine's queue: bounded, hot and cold, with one [`RouteQueue`] per route.
//!
//! Decides which events a worker takes next. Where there are several routes, each of them gets at most half of the
//! places, so that a slow, limited or closed route does not hold up the others. The bounds are global: a number of hot
//! events, a number of cold events, and the bytes of all events that wait or are being delivered.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::queued_event::QueuedEvent;
use super::route_queue::{Readiness, RouteQueue};
use super::suspect_event::{SuspectSlot, SuspectTurn};
use crate::config::{Fairness, QueueConfig};
use crate::destination::Source;
use crate::mutex::lock;
use crate::route::{RouteEntry, RouteTable};

/// Room for cold events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) events: usize,
    /// Bytes that are free. A single event may be larger than this.
    pub(crate) bytes: usize,
}

/// An event that the queue did not accept.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) item: QueuedEvent,
    /// The queue has room, but the event's route has used up its share.
    pub(crate) share_is_full: bool,
}

#[derive(Debug)]
pub(crate) struct WorkQueue {
    /// The only lock of the queue. Never held across an await.
    inner: Mutex<Inner>,
    limits: QueueConfig,
    /// Strict mode: events leave one by one, in the order in which they arrived, whatever their route.
    strict: bool,
    /// Number of routes. `route_queues[routes]` is the queue of events without a route.
    routes: usize,
    /// Wakes one worker that waits in [`take`](Self::take); all of them when the queue changes state.
    work: Notify,
    /// Wakes the poller, which waits for room.
    space: Notify,
}

#[derive(Debug)]
struct Inner {
    /// One queue per route; the last one is for events without a route.
    route_queues: Vec<RouteQueue>,
    /// Hot events that wait, of all routes. Always the sum over `route_queues`.
    hot: usize,
    /// Cold events that wait, of all routes. Always the sum over `route_queues`.
    cold: usize,
    /// Bytes of the events that wait and of those that are being delivered, of all routes.
    bytes: usize,
    /// Deliveries under way, each with one batch. Raised by [`take`](WorkQueue::take), lowered by
    /// [`finished`](WorkQueue::finished).
    running: usize,
    /// The one event that may be killing its owners; it waits here, outside the route queues.
    suspect: SuspectSlot,
    /// Events that ever entered. Numbers them in the order of their arrival.
    arrivals: u64,
    /// Counts takes modulo 3: every third take prefers the cold queue.
    turn: u8,
    /// Index of the route that is looked at first by the next take, so that every route gets its turn.
    first: usize,
    /// Changes only forwards: open, draining, closed.
    state: State,
    /// Set by the settler while settlements cannot be written back: workers start nothing.
    starts_paused: bool,
    /// How many places must be free before the poller, which waits for room, is woken.
    awaited_room: usize,
    /// Strict mode: events were taken out to be released, so no event that arrived behind them may enter until the next
    /// claim begins.
    halted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Accepts events.
    Open,
    /// Shutting down: accepts nothing, and workers stop when it is empty.
    Draining,
    /// Accepts nothing, and workers stop immediately.
    Closed,
}

enum Next {
    /// A batch of one route.
    Take(Vec<QueuedEvent>),
    /// Nothing now; look again at this instant, when a rate limit or a suspect's wait ends.
    At(Instant),
    /// Nothing until the next notification.
    Nothing,
    /// The worker ends.
    Stop,
}

impl WorkQueue {
    pub(crate) fn new(limits: QueueConfig, routes: &RouteTable, strict: bool) -> Self {
        let batch = |route: &RouteEntry| if strict { 1 } else { route.batch };
        let mut route_queues: Vec<_> = routes
            .entries()
            .iter()
            .map(|route| RouteQueue::new(route.concurrency, batch(route), route.rate))
            .collect();
        route_queues.push(RouteQueue::new(usize::MAX, 1, None)); // events without a route
        let inner = Inner {
            route_queues,
            hot: 0,
            cold: 0,
            bytes: 0,
            running: 0,
            suspect: SuspectSlot::default(),
            arrivals: 0,
            turn: 0,
            first: 0,
            state: State::Open,
            starts_paused: false,
            awaited_room: 1,
            halted: false,
        };
        Self {
            inner: Mutex::new(inner),
            limits,
            strict,
            routes: routes.entries().len(),
            work: Notify::new(),
            space: Notify::new(),
        }
    }

    /// Adds an event. Returns it if the queue, or the route's share of it, is full or the queue is shutting down.
    #[allow(
        clippy::result_large_err,
        reason = "the item goes back to its owner, who still has to release it"
    )]
    pub(crate) fn push(&self, mut item: QueuedEvent) -> Result<(), Refused> {
        let mut inner = self.lock();
        let (source, limit) = (item.source(), self.limit(item.source()));
        let is_full = self.is_shut_or_out_of_bytes(&inner) || *inner.count(source) >= limit;
        let share = (self.share(item.route, limit), self.share(item.route, self.limits.bytes));
        let queue = &mut inner.route_queues[item.route];
        let share_is_full = queue.side(source).len() >= share.0 || queue.bytes >= share.1;
        if is_full || share_is_full {
            return Err(Refused { item, share_is_full: !is_full });
        }
        *inner.count(source) += 1;
        inner.add_bytes(item.route, item.weight());
        inner.arrivals += 1;
        item.arrival = inner.arrivals;
        inner.route_queues[item.route].side(source).push_back(item);
        drop(inner);
        self.work.notify_one();
        Ok(())
    }

    /// Adds a suspect. Returns it if the slot is taken or the queue is shutting down.
    #[allow(clippy::result_large_err, reason = "as for `push`")]
    pub(crate) fn push_suspect(&self, item: QueuedEvent, not_before: Instant) -> Result<(), QueuedEvent> {
        let mut inner = self.lock();
        if self.is_shut_or_out_of_bytes(&inner) || !inner.suspect.is_free(Instant::now()) {
            return Err(item);
        }
        inner.suspect.put(item, not_before);
        drop(inner);
        // Waiting workers have to learn when it may begin.
        self.work.notify_waiters();
        Ok(())
    }

    /// Whether the slot for a suspect is free.
    pub(crate) fn wants_suspect(&self) -> bool {
        let inner = self.lock();
        !self.is_shut_or_out_of_bytes(&inner) && inner.suspect.is_free(Instant::now())
    }

    /// Whether no event may enter. While any bytes are free, an event of any size may enter: if only small events
    /// could, a large one would never get its turn.
    fn is_shut_or_out_of_bytes(&self, inner: &Inner) -> bool {
        inner.state != State::Open || inner.halted || inner.bytes >= self.limits.bytes
    }

    /// The next events for a worker, all of one route. `None` if the worker has to stop. The delivery counts as running
    /// until [`finished`](Self::finished) is called.
    pub(crate) async fn take(&self) -> Option<Vec<QueuedEvent>> {
        loop {
            let work = self.work.notified();
            tokio::pin!(work);
            work.as_mut().enable();
            match self.next() {
                Next::Take(items) => return Some(items),
                Next::Stop => {
                    // The other workers may be waiting since the last event was taken.
                    self.work.notify_waiters();
                    return None;
                }
                Next::Nothing => work.await,
                Next::At(instant) => {
                    let _ = tokio::time::timeout_at(instant, work).await;
                }
            }
        }
    }

    /// A delivery of this route ended and frees these bytes. If it was the suspect's, returns when the next suspect may
    /// enter.
    pub(crate) fn finished(&self, route: usize, bytes: usize) -> Option<Instant> {
        let mut inner = self.lock();
        let was_heavy = inner.bytes >= self.limits.bytes;
        inner.running -= 1;
        inner.subtract_bytes(route, bytes);
        let queue = &mut inner.route_queues[route];
        queue.running -= 1;
        let limited = queue.running + 1 == queue.concurrency;
        let next_suspect = inner.suspect.ended(Instant::now());
        let awaited = inner.suspect.is_blocking() && inner.running == 0;
        drop(inner);
        match next_suspect {
            Some(_) => self.work.notify_waiters(),
            None if limited || awaited => self.work.notify_one(),
            None => {}
        }
        if was_heavy {
            self.space.notify_one();
        }
        next_suspect
    }

    /// How much more the cold queue accepts.
    pub(crate) fn cold_room(&self) -> Room {
        let inner = self.lock();
        if inner.state != State::Open || inner.bytes >= self.limits.bytes {
            return Room::default();
        }
        Room { events: self.limits.cold.saturating_sub(inner.cold), bytes: self.limits.bytes - inner.bytes }
    }

    /// How many more cold events of this route the queue accepts.
    pub(crate) fn cold_room_of(&self, route: usize) -> usize {
        let room = self.cold_room().events;
        let inner = self.lock();
        let queue = &inner.route_queues[route];
        if queue.bytes >= self.share(route, self.limits.bytes) {
            return 0;
        }
        room.min(self.share(route, self.limits.cold).saturating_sub(queue.cold.len()))
    }

    /// Whether at most a quarter of the route's share of the cold queue is in use, and at most half of its bytes.
    pub(crate) fn has_drained(&self, route: usize) -> bool {
        let inner = self.lock();
        let queue = &inner.route_queues[route];
        queue.cold.len() * 4 <= self.share(route, self.limits.cold)
            && queue.bytes * 2 <= self.share(route, self.limits.bytes)
    }

    /// The route's share of `limit` places: all of them if it is the only route, else half, so that a slow or limited
    /// route leaves room for the others. Strict mode has no shares, because it parks nothing.
    fn share(&self, route: usize, limit: usize) -> usize {
        if self.strict || self.routes < 2 || route == self.routes { limit } else { limit.div_ceil(2) }
    }

    /// Waits until events leave the queue the next time.
    pub(crate) async fn room(&self) {
        self.space.notified().await;
    }

    /// Waits until this many places are free, or the queue is shutting down.
    pub(crate) async fn room_for(&self, events: usize) {
        let _awaited = AwaitedRoom::set(self, events);
        loop {
            let space = self.space.notified();
            tokio::pin!(space);
            space.as_mut().enable();
            if self.has_room_for(events) {
                return;
            }
            space.await;
        }
    }

    fn has_room_for(&self, events: usize) -> bool {
        let inner = self.lock();
        inner.state != State::Open || inner.free(self.limits.cold) >= events
    }

    /// Whether the hot queue, the route's share of it, or the bytes are more than three quarters used. Then new rows
    /// are better left to the poller than born leased to this engine.
    pub(crate) fn hot_is_crowded(&self, route: usize) -> bool {
        let inner = self.lock();
        inner.state != State::Open
            || inner.hot * 4 > self.limits.hot * 3
            || inner.route_queues[route].hot.len() * 4 > self.share(route, self.limits.hot) * 3
            || inner.bytes / 3 > self.limits.bytes / 4
    }

    /// The number of hot and of cold events that wait.
    pub(crate) fn depths(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.hot, inner.cold)
    }

    /// Pauses or resumes the start of deliveries. The settler pauses them while settlements cannot be written back.
    pub(crate) fn set_starts_paused(&self, paused: bool) {
        let mut inner = self.lock();
        if inner.starts_paused == paused {
            return;
        }
        inner.starts_paused = paused;
        drop(inner);
        self.work.notify_waiters();
    }

    /// Begins the drain: accepts nothing more, and workers stop when it is empty. Returns a suspect that has not begun,
    /// because it must not run beside others.
    pub(crate) fn drain(&self) -> Vec<QueuedEvent> {
        self.enter(State::Draining);
        self.lock().suspect.take().into_iter().collect()
    }

    /// Closes the queue: workers stop immediately. Returns the events that were waiting.
    pub(crate) fn close(&self) -> Vec<QueuedEvent> {
        self.enter(State::Closed);
        self.take_all()
    }

    /// Strict mode: a claim begins, so events may enter again.
    pub(crate) fn admit_again(&self) {
        self.lock().halted = false;
    }

    /// Removes and returns every event that waits.
    pub(crate) fn take_all(&self) -> Vec<QueuedEvent> {
        let mut inner = self.lock();
        inner.halted = self.strict;
        let mut items = Vec::new();
        for queue in &mut inner.route_queues {
            items.extend(queue.hot.drain(..).chain(queue.cold.drain(..)));
        }
        inner.taken(&items);
        for item in &items {
            inner.subtract_bytes(item.route, item.weight());
        }
        items.extend(inner.suspect.take());
        drop(inner);
        self.space.notify_one();
        items
    }

    fn enter(&self, state: State) {
        self.lock().state = state;
        self.work.notify_waiters();
        self.space.notify_one();
    }

    fn next(&self) -> Next {
        let mut inner = self.lock();
        if inner.state == State::Closed {
            return Next::Stop;
        }
        if inner.starts_paused {
            return Next::Nothing;
        }
        if inner.state == State::Draining && inner.hot + inner.cold == 0 {
            return Next::Stop;
        }
        let now = Instant::now();
        let next = match self.turn(&mut inner, now) {
            SuspectTurn::Block(until) => Next::Nothing.or_at(until),
            SuspectTurn::Begin(item) => inner.begin_suspect(*item, now),
            SuspectTurn::Others(suspect_at) => self.next_of_others(&mut inner, now).or_at(suspect_at),
        };
        let more = inner.hot + inner.cold > 0;
        let has_room = inner.free(self.limits.cold) >= inner.awaited_room;
        drop(inner);
        if let Next::Take(_) = &next {
            if has_room {
                self.space.notify_one();
            }
            if more {
                self.work.notify_one();
            }
        }
        next
    }

    /// Whose turn it is. In strict order a suspect follows everything that was queued before it.
    fn turn(&self, inner: &mut Inner, now: Instant) -> SuspectTurn {
        let idle = inner.running == 0;
        if self.strict && inner.cold > 0 {
            return SuspectTurn::Others(None);
        }
        inner.suspect.turn(now, idle)
    }

    fn next_of_others(&self, inner: &mut Inner, now: Instant) -> Next {
        if inner.hot + inner.cold == 0 {
            return Next::Nothing;
        }
        if self.strict {
            return inner.take_first(now);
        }
        let preferred = self.preferred(inner);
        inner.take(preferred, now)
    }

    fn preferred(&self, inner: &mut Inner) -> Source {
        inner.turn = (inner.turn + 1) % 3;
        match self.limits.fairness {
            Fairness::Weighted if inner.turn == 0 => Source::Cold,
            _ => Source::Hot,
        }
    }

    /// How many events of this source may wait.
    fn limit(&self, source: Source) -> usize {
        match source {
            Source::Hot => self.limits.hot,
            Source::Cold => self.limits.cold,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// Sets how much room the poller waits for, and resets it when it is dropped.
struct AwaitedRoom<'a>(&'a WorkQueue);

impl<'a> AwaitedRoom<'a> {
    fn set(queue: &'a WorkQueue, events: usize) -> Self {
        queue.lock().awaited_room = events;
        Self(queue)
    }
}

impl Drop for AwaitedRoom<'_> {
    fn drop(&mut self) {
        self.0.lock().awaited_room = 1;
    }
}

impl Inner {
    /// How many of these places for cold events are free.
    fn free(&self, cold: usize) -> usize {
        cold.saturating_sub(self.cold)
    }

    /// How many events of this source wait.
    fn count(&mut self, source: Source) -> &mut usize {
        match source {
            Source::Hot => &mut self.hot,
            Source::Cold => &mut self.cold,
        }
    }

    /// The next events of the preferred source, or of the other if no route can start one of the preferred source.
    fn take(&mut self, preferred: Source, now: Instant) -> Next {
        let other = if preferred == Source::Hot { Source::Cold } else { Source::Hot };
        let mut earliest: Option<Instant> = None;
        for side in [preferred, other] {
            for offset in 0..self.route_queues.len() {
                let route = (self.first + offset) % self.route_queues.len();
                match self.route_queues[route].ready(side, now) {
                    Readiness::Empty | Readiness::Busy => {}
                    Readiness::At(instant) => earliest = Some(earliest.map_or(instant, |at| at.min(instant))),
                    Readiness::Ready => {
                        self.first = route + 1;
                        let items = self.route_queues[route].start(side, now);
                        self.taken(&items);
                        self.running += 1;
                        return Next::Take(items);
                    }
                }
            }
        }
        earliest.map_or(Next::Nothing, Next::At)
    }

    /// The event that arrived first, alone, whatever its route. Strict mode has cold events only.
    fn take_first(&mut self, now: Instant) -> Next {
        let heads = self.route_queues.iter().enumerate();
        let heads = heads.filter_map(|(route, queue)| Some((queue.cold.front()?.arrival, route)));
        let Some((_, route)) = heads.min() else { return Next::Nothing };
        match self.route_queues[route].ready(Source::Cold, now) {
            Readiness::Empty | Readiness::Busy => Next::Nothing,
            Readiness::At(instant) => Next::At(instant),
            Readiness::Ready => {
                let items = self.route_queues[route].start(Source::Cold, now);
                self.taken(&items);
                self.running += 1;
                Next::Take(items)
            }
        }
    }

    fn add_bytes(&mut self, route: usize, bytes: usize) {
        self.bytes += bytes;
        self.route_queues[route].bytes += bytes;
    }

    fn subtract_bytes(&mut self, route: usize, bytes: usize) {
        self.bytes -= bytes;
        self.route_queues[route].bytes -= bytes;
    }

    /// The suspect begins. Its bytes count only from here on: while it waits, it must not keep other events out.
    fn begin_suspect(&mut self, item: QueuedEvent, now: Instant) -> Next {
        self.running += 1;
        self.add_bytes(item.route, item.weight());
        self.route_queues[item.route].begin(1, now);
        Next::Take(vec![item])
    }

    /// These events no longer wait. Their bytes count until their delivery has ended.
    fn taken(&mut self, items: &[QueuedEvent]) {
        for item in items {
            *self.count(item.source()) -= 1;
        }
    }
}

impl Next {
    /// The same, but if there is nothing to take, look again at this instant at the latest.
    fn or_at(self, other: Option<Instant>) -> Self {
        match (self, other) {
            (Next::Nothing, Some(at)) => Next::At(at),
            (Next::At(first), Some(at)) => Next::At(first.min(at)),
            (next, _) => next,
        }
    }
}
