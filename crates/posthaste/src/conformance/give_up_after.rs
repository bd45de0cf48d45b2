//! `give_up_after`: putting an event off spends no attempt, and a time limit may end it.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use super::Harness;
use super::store_fixture::{HOUR, MINUTE, SECOND, StoreFixture, deferred, failed, put_off, unreachable};
use crate::row::Status;
use crate::store::{Settled, Verdict};

pub async fn putting_off_ends_after_its_limit(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    for at in [t, t + 30 * MINUTE, t + HOUR - SECOND] {
        let lease = k.take(at).await;
        assert_eq!(k.settle(at, &lease, put_off(HOUR)).await, Settled::Waiting { delay: SECOND });
        let row = k.row(&id).await;
        assert_eq!((row.status, row.attempts), (Status::New, 0));
        assert_eq!(row.last_error.as_deref(), Some("too busy"));
    }
    let lease = k.take(t + HOUR).await;
    assert_eq!(k.settle(t + HOUR, &lease, put_off(HOUR)).await, Settled::Dead { attempts: 0 });
    let row = k.row(&id).await;
    assert_eq!((row.status, row.done_at, row.locked_by), (Status::Dead, Some(t + HOUR), None));
    assert_eq!(row.last_error.as_deref(), Some("too busy"));
}

/// A node without a route for an event gives up soon, but the event was waiting for a busy destination of other nodes.
pub async fn longest_limit_of_putting_off_applies(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for limits in [[HOUR, MINUTE], [MINUTE, HOUR]] {
        k.one().await;
        let t = k.now().await;
        let lease = k.take(t).await;
        k.settle(t, &lease, put_off(limits[0])).await;
        for (after, limit) in [(30 * SECOND, limits[1]), (2 * MINUTE, MINUTE), (HOUR - SECOND, MINUTE)] {
            let lease = k.take(t + after).await;
            let settled = k.settle(t + after, &lease, put_off(limit)).await;
            assert_eq!(settled, Settled::Waiting { delay: SECOND }, "{limits:?} after {after:?}");
        }
        let lease = k.take(t + HOUR).await;
        assert_eq!(k.settle(t + HOUR, &lease, put_off(MINUTE)).await, Settled::Dead { attempts: 0 });
    }
}

/// A deferral ends the putting off: its limit no longer applies, and a later putting off starts with its own.
pub async fn interrupted_limit_of_putting_off_does_not_apply_later(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    k.settle(t, &lease, put_off(HOUR)).await;
    let lease = k.take(t + SECOND).await;
    k.settle(t + SECOND, &lease, deferred(SECOND)).await;
    for (at, expected) in
        [(t + MINUTE, Settled::Waiting { delay: SECOND }), (t + 2 * MINUTE, Settled::Dead { attempts: 0 })]
    {
        let lease = k.take(at).await;
        assert_eq!(k.settle(at, &lease, put_off(MINUTE)).await, expected);
    }
}

pub async fn time_of_putting_off_survives_claims_and_releases(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    k.settle(t, &lease, put_off(HOUR)).await;
    let lease = k.take(t + MINUTE).await;
    k.release(t + MINUTE, &[lease]).await;
    let lease = k.take(t + HOUR).await;
    assert_eq!(k.settle(t + HOUR, &lease, put_off(HOUR)).await, Settled::Dead { attempts: 0 });
}

/// A route that an operator paused over the weekend is not a destination that was busy for that time.
pub async fn closed_route_ends_the_time_of_putting_off(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let t = k.now().await;
    for is_parked_by_settlement in [true, false] {
        let lease = k.held(1).await.remove(0);
        if is_parked_by_settlement {
            let busy = put_off(HOUR);
            let Verdict::Unreachable { error, delay, give_up_after, .. } = busy else { unreachable!() };
            let park = Some("mail".to_owned());
            k.settle(t, &lease, Verdict::Unreachable { error, delay, park, give_up_after }).await;
        } else {
            k.settle(t, &lease, put_off(HOUR)).await;
            let lease = k.take(t + MINUTE).await;
            assert_eq!(k.park(t + MINUTE, &[lease], "mail").await, 1);
        }
        assert_eq!(k.unpark(t + 2 * HOUR, "mail", 1).await, 1);
        let lease = k.take(t + 2 * HOUR).await;
        let settled = k.settle(t + 2 * HOUR, &lease, put_off(HOUR)).await;
        assert_eq!(settled, Settled::Waiting { delay: SECOND }, "{is_parked_by_settlement}");
        let lease = k.take(t + 2 * HOUR + MINUTE).await;
        assert_eq!(k.settle(t + 2 * HOUR + MINUTE, &lease, Verdict::Done).await, Settled::Done);
    }
}

pub async fn any_other_outcome_ends_putting_off(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let mut t = k.now().await;
    for verdict in [failed(10, &[1]), deferred(SECOND), unreachable(SECOND, None)] {
        let lease = k.take(t).await;
        assert_ne!(k.settle(t, &lease, put_off(HOUR)).await, Settled::Stale);
        let lease = k.take(t + MINUTE).await;
        k.settle(t + MINUTE, &lease, verdict.clone()).await;
        t = t + HOUR;
        let lease = k.take(t).await;
        let settled = k.settle(t, &lease, put_off(HOUR)).await;
        assert_eq!(settled, Settled::Waiting { delay: SECOND }, "{verdict:?}");
        let lease = k.take(t + MINUTE).await;
        k.settle(t + MINUTE, &lease, verdict).await;
        t = t + 2 * MINUTE;
    }
}
