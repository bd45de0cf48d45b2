//! Row identity: a row is identified by its id and its number together, because either can repeat.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use super::Harness;
use super::settle::every_verdict;
use super::store_fixture::{StoreFixture, outcome, plain};
use crate::row::Status;
use crate::store::{Lease, OnDone, Settled, Verdict};

/// Every verdict, and every way to end a delivered row, identifies the row by id and number together.
pub async fn number_assigned_twice_settles_the_right_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for on_done in ends(h) {
        for verdict in every_verdict() {
            let lost = k.held(1).await.remove(0);
            if k.lacks(h.give_again(lost.seq).await, "number that is given twice") {
                return;
            }
            let other = k.held(1).await.remove(0);
            assert_eq!(other.seq, lost.seq, "the number is given again");
            // The same engine may hold the new row, too: one claim, one token.
            let lost = Lease { token: other.token, ..lost };
            let t = k.now().await;
            let settlement = outcome(&lost, verdict.clone());
            assert_eq!(k.settle_all(Some(t), &[settlement], on_done).await, [Settled::Stale], "{verdict:?}");
            let row = k.row(&other.id).await;
            assert_eq!((row.status, row.attempts, row.deferrals), (Status::New, 0, 0), "{verdict:?}");
            assert_eq!((row.parked, row.last_error), (None, None), "{verdict:?}");
            assert!(k.renew(t, std::slice::from_ref(&lost)).await.is_empty());
            assert_eq!(k.release(t, std::slice::from_ref(&lost)).await, 0);
            assert_eq!(k.park(t, std::slice::from_ref(&lost), "mail").await, 0);
            assert_eq!(k.settle(t, &other, Verdict::Done).await, Settled::Done, "its owner still holds it");
        }
    }
}

pub async fn id_written_twice_settles_the_right_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for on_done in ends(h) {
        let event = plain();
        let gone = k.hold(vec![event.clone()]).await.remove(0);
        let settled = k.settle_all(None, &[outcome(&gone, Verdict::Done)], OnDone::Delete).await;
        assert_eq!(settled, [Settled::Done]);
        k.hold(vec![event.clone()]).await;
        // The reply to the first settlement was lost, so it is sent again.
        let again = k.settle_all(None, &[outcome(&gone, Verdict::Done)], on_done).await;
        assert_eq!(again, [Settled::Stale], "{on_done:?}");
        assert_eq!(k.row(event.id()).await.status, Status::New, "{on_done:?}");
    }
}

fn ends(h: &dyn Harness) -> Vec<OnDone> {
    let mut ends = vec![OnDone::Keep, OnDone::Delete];
    if h.capabilities().archive {
        ends.push(OnDone::Archive);
    }
    ends
}
