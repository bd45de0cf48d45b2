//! The counter of decisions.

use super::*;
use crate::counters::Counters;

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn decisions_are_counted_by_their_outcome() {
    let decisions = Counters::default();
    let _guard = metrics::set_default_local_recorder(&decisions);
    let fixture = on_one_server(1).await;
    let due = fixture.due_since("17", SECOND).await;
    for ticket in ["18", "19"] {
        fixture.due_since(ticket, SECOND).await;
    }
    run_once(&fixture.expiry).await;
    fixture.decide(&due).await;
    fixture.due_since("17", SECOND).await;
    fixture.decide(&due).await;
    fixture.revoke("20").await;
    let due = fixture.due_since("20", SECOND).await;
    fixture.decide(&due).await;
    let expected = [("already_enqueued", 1), ("enqueued", 3), ("not_due", 1), ("suppressed_revoked", 1)];
    let mut counted = decisions.counted();
    counted.retain(|(name, _)| name.starts_with("expiries "));
    assert_eq!(counted, expected.map(|(decision, count)| (format!("expiries {decision}"), count)));
    fixture.end().await;
}
