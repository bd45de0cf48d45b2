//! A COMMIT that the database refuses because of a deferred constraint.

use posthaste::CommitError;

use crate::cases::writer::Fixture;
use crate::support::*;

/// The tests of this file.
macro_rules! refused_commit_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::refused_commit:
            commit_that_a_deferred_constraint_refuses_is_rolled_back_and_delivers_nothing,
        );
    };
}
pub(crate) use refused_commit_tests;

pub(crate) async fn commit_that_a_deferred_constraint_refuses_is_rolled_back_and_delivers_nothing() {
    let w = Fixture::with_pool(1).await;
    w.db.execute("CREATE TABLE child (parent INTEGER REFERENCES orders DEFERRABLE INITIALLY DEFERRED)").await;
    let mut tx = w.begin().await;
    tx.write(event("undone")).await.unwrap();
    run(&mut *tx, "INSERT INTO child VALUES (1)").await.unwrap();
    let refused = tx.commit().await;
    assert!(matches!(refused, Err(CommitError::RolledBack(_))), "{refused:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");
    // The only connection is free again, and outside a transaction.
    w.write("kept").await;
    assert_eq!(w.db.ids().await, ["kept"]);
    assert_eq!(w.delivered().await, ["kept"]);
    w.close().await;
}
