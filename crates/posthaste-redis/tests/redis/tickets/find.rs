//! Finding due tickets.

use super::*;

// S1-32, S1-35
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn due_tickets_are_found_oldest_first_across_shards() {
    let fixture = on_one_server(4).await;
    let mut expected = Vec::new();
    for n in 0..12_u64 {
        // In no order, neither by ticket nor by shard.
        let ago = SECOND * u32::try_from(1 + n * 7 % 12).expect("small");
        expected.push(fixture.due_since(&format!("t{n}"), ago).await);
    }
    expected.sort_by_key(|due| due.expires_at);
    assert_eq!(fixture.found().await, expected);
    assert_eq!(fixture.expiry.find_due_expiries(5).await.expect("a result"), expected[..5]);
    assert_eq!(fixture.expiry.find_due_expiries(0).await.expect("a result"), []);
    fixture.end().await;
}

// S1-34, S1-35
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_is_due_from_its_millisecond_on_by_the_servers_clock() {
    let fixture = on_one_server(1).await;
    assert_eq!(fixture.found().await, [], "empty, and no error");
    let later = fixture.record("later", fixture.start + HOUR).await;
    let now = fixture.record("now", fixture.now().await).await;
    assert_eq!(fixture.found().await, std::slice::from_ref(&now));
    let before = fixture.expiry.at(later.expires_at - Duration::from_millis(1));
    assert_eq!(before.find_due_expiries(10).await.expect("a result"), std::slice::from_ref(&now));
    let then = fixture.expiry.at(later.expires_at);
    assert_eq!(then.find_due_expiries(10).await.expect("a result"), [now, later]);
    fixture.end().await;
}

// S1-35
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn find_changes_nothing() {
    let fixture = on_one_server(1).await;
    fixture.due_since("17", SECOND).await;
    let first = fixture.found().await;
    assert_eq!(fixture.found().await, first);
    let mut keys: Vec<String> = fixture.run("KEYS", "*", NO_ARGS).await;
    keys.sort();
    assert_eq!(keys, ["expiry-due", "settings"].map(|key| fixture.key(key)));
    fixture.end().await;
}

// S1-32
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn expiry_time_is_stored_in_milliseconds_since_1970() {
    let fixture = on_one_server(1).await;
    fixture.record("17", Timestamp::from_micros(1_700_000_000_123_999)).await;
    assert_eq!(fixture.run::<String>("ZSCORE", "expiry-due", "17").await, "1700000000123");
    let found = DueExpiry::new("17", Timestamp::from_micros(1_700_000_000_123_000));
    assert_eq!(fixture.found().await, std::slice::from_ref(&found));
    assert_eq!(fixture.decide(&found).await, ExpiryDecision::Enqueued);
    fixture.end().await;
}

/// Members of another program in the set do not block other tickets.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn members_of_a_foreign_program_do_no_harm() {
    let fixture = on_one_server(1).await;
    let good = fixture.due_since("good", SECOND).await;
    let members = (("1000.5", "fraction"), ("-inf", "ever"), ("+inf", "never"), ("5", b"\xff\xfe"));
    let _: u8 = fixture.run("ZADD", "expiry-due", members).await;
    assert!(fixture.found().await.contains(&good));
    let report = run_once(&fixture.expiry).await;
    assert_eq!((report.enqueued, report.failed), (2, 0), "{report:?}");
    let events = fixture.events().await;
    assert!(events.keys().eq(["fraction", "good"]), "{events:?}");
    fixture.end().await;
}
