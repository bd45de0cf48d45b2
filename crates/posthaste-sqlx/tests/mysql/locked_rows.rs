//! Rows and tables that an open transaction has locked do not block other rows.

use std::time::Duration;

use posthaste::store::{
    Lease, LeaseToken, Owner, Park, Release, Renew, Settle, Settled, Settlement, Store as _, Verdict,
};
use posthaste::writer::{NewLease, NewRow};
use sqlx::MySqlConnection;

use crate::support::*;

const LEASE_DURATION: Duration = Duration::from_secs(600);

/// Inserts an event that is born leased.
async fn insert(db: &Db, connection: &mut MySqlConnection, owner: &Owner, id: &str) -> Lease {
    let (event, token) = (event(id), LeaseToken::random());
    let lease = Lease::new(event.id().clone(), 0, token);
    let held = NewLease::new(owner.clone(), token, LEASE_DURATION);
    let rows = [NewRow::new(event).with_lease(Some(held))];
    let seqs = db.store.insert_rows(connection, &rows).await.expect("a row");
    Lease::new(lease.id, seqs[0].expect("a new row"), lease.token)
}

/// A service drops its receipt and continues its transaction. Meanwhile the engine releases the lease.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn leases_of_an_open_transaction_are_not_waited_for() {
    let db = Db::new().await;
    let (owner, now) = (Owner::random("me"), None);
    let mut tx = db.pool.begin().await.unwrap();
    let open = insert(&db, &mut tx, &owner, "open").await;
    let mut other = db.pool.begin().await.unwrap();
    let committed = insert(&db, &mut other, &owner, "committed").await;
    other.commit().await.unwrap();

    let leases = [open, committed.clone()];
    let renew = Renew::new(&owner, &leases, LEASE_DURATION).at(now);
    assert_eq!(db.store.renew(&renew).await.unwrap(), [committed], "the other is not there yet");
    let park = Park::new(&owner, &leases[..1], "mail", LEASE_DURATION).at(now);
    assert_eq!(db.store.park(&park).await.unwrap(), 0);
    let release = Release::new(&owner, &leases).at(now);
    assert_eq!(db.store.release(&release).await.unwrap(), 1);
    assert_eq!(db.store.repeated_calls(), 0, "no call has waited for a lock");
    tx.commit().await.unwrap();
    db.close().await;
}

/// Another process reads a row with `FOR UPDATE` and keeps the lock until the lease has expired. If the renewal were
/// reported as successful, the engine would deliver an event that another one has claimed.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn lease_of_a_locked_row_is_not_reported_as_renewed() {
    let db = Db::new().await;
    let owner = Owner::random("me");
    let mut tx = db.pool.begin().await.unwrap();
    let leases = [insert(&db, &mut tx, &owner, "locked").await, insert(&db, &mut tx, &owner, "free").await];
    tx.commit().await.unwrap();
    let mut tx = db.pool.begin().await.unwrap();
    let lock = "SELECT seq FROM outbox_event WHERE event_id = 'locked' FOR UPDATE";
    sqlx::query(lock).execute(&mut *tx).await.unwrap();

    let renew = Renew::new(&owner, &leases, LEASE_DURATION);
    assert_eq!(db.store.renew(&renew).await.unwrap(), leases[1..]);
    let start = renew.clone().starting();
    assert_eq!(db.store.renew(&start).await.unwrap(), leases[1..]);
    let starts = "SELECT GROUP_CONCAT(lost_leases ORDER BY seq) FROM outbox_event";
    assert_eq!(db.text(starts).await.as_deref(), Some("0,1"), "what was renewed was counted once");

    tx.rollback().await.unwrap();
    assert_eq!(db.store.renew(&renew).await.unwrap(), leases, "it was never lost");
    let settlements = [Settlement::new(leases[0].clone(), Verdict::Done)];
    let settle = Settle::new(&owner, &settlements);
    assert_eq!(db.store.settle(&settle).await.unwrap(), [Settled::Done]);
    db.close().await;
}
