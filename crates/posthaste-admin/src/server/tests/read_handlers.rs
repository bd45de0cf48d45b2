//! Endpoints that read.

use std::collections::BTreeSet;

use posthaste::memory::RawRow;

use super::support::{ApiFixture, ORDERS_PATH, served};

#[tokio::test]
async fn outboxes_are_listed_with_their_routes() {
    let support = ApiFixture::guarded();
    support.post(&format!("{ORDERS_PATH}/routes/Order.*/pause"), serde_json::json!({})).await.ok();
    let outboxes = support.get("/api/v1/outboxes").await.ok();
    let expected = serde_json::json!({"outboxes": [{
        "outbox": "orders", "open": true, "routes": ["mail", "Order.*", "a/b"], "paused": ["Order.*"],
    }]});
    assert_eq!(outboxes, expected);
}

#[tokio::test]
async fn outbox_that_is_not_open_yet_is_listed_and_refuses_the_rest() {
    let support = ApiFixture::of(served());
    let outboxes = support.get("/api/v1/outboxes").await.ok();
    assert_eq!(outboxes["outboxes"][0]["open"], false);
    assert!(outboxes["outboxes"][0]["paused"].is_null());
    let reply = support.get(&format!("{ORDERS_PATH}/stats")).await;
    reply.refused(503);
    assert_eq!(reply.headers["retry-after"], "1");
}

#[tokio::test]
async fn stats_are_those_of_the_command_line() {
    let support = ApiFixture::guarded();
    let stats = support.get(&format!("{ORDERS_PATH}/stats")).await.ok();
    assert_eq!((&stats["pending"]["new"], &stats["pending"]["retry"]), (&3.into(), &3.into()));
    assert_eq!((&stats["done"], &stats["dead"], &stats["archived"]), (&3.into(), &3.into(), &0.into()));
    assert!(stats["oldest_pending_seconds"].is_number());
    assert_eq!(stats["estimated"]["pending"], false);
}

#[tokio::test]
async fn pages_cover_all_events_without_gaps_or_repeats() {
    let support = ApiFixture::guarded();
    for n in 0..50 {
        support.store.insert_raw(RawRow::default().with_id(format!("more-{n}")));
    }
    let (mut ids, mut pages, mut after) = (BTreeSet::new(), 0, String::new());
    loop {
        let page = support.get(&format!("{ORDERS_PATH}/events?limit=7{after}")).await.ok();
        for event in page["events"].as_array().unwrap() {
            assert!(ids.insert(event["id"].as_str().unwrap().to_owned()), "{event} came twice");
        }
        pages += 1;
        let Some(next) = page["next"].as_i64() else { break };
        after = format!("&after={next}");
    }
    assert_eq!((ids.len(), pages), (62, 9));
}

#[tokio::test]
async fn events_follow_every_filter() {
    let support = ApiFixture::guarded();
    for (query, found) in [
        ("", 12),
        ("status=DEAD", 3),
        ("status=ARCHIVED", 0),
        ("type=MailSent", 4),
        ("aggregate_type=Order&aggregate_id=o-2", 4),
        ("tenant=acme&status=NEW", 1),
        ("error=refused%20by", 6),
        ("error=refused%25", 0),
        ("parked=mail", 0),
        ("older_than=30m", 6),
        ("older_than=30m&status=DEAD", 3),
        ("older_than=2h", 0),
        ("limit=2", 2),
    ] {
        let page = support.get(&format!("{ORDERS_PATH}/events?{query}")).await.ok();
        assert_eq!(page["events"].as_array().unwrap().len(), found, "{query}");
    }
}

#[tokio::test]
async fn backlog_is_grouped_by_type_or_by_tenant() {
    let support = ApiFixture::guarded();
    let keys = async |query: &str| {
        let backlog = support.get(&format!("{ORDERS_PATH}/backlog{query}")).await.ok();
        let groups = backlog["groups"].as_array().unwrap().iter();
        let groups: Vec<_> = groups.map(|group| format!("{} {}", group["key"], group["count"])).collect();
        (groups.join(", "), backlog["complete"].as_bool().unwrap())
    };
    let by_type = r#""Order:OrderPlaced" 4, "Order:MailSent" 2"#.to_owned();
    assert_eq!(keys("").await, (by_type.clone(), true));
    assert_eq!(keys("?by=type").await, (by_type, true));
    assert_eq!(keys("?by=tenant").await, (r#"null 4, "acme" 2"#.to_owned(), true));
    assert_eq!(keys("?by=tenant&limit=1").await, ("null 4".to_owned(), false));
}

#[tokio::test]
async fn events_that_match_are_counted() {
    let support = ApiFixture::guarded();
    for (query, count) in
        [("status=DEAD", 3), ("status=DEAD&type=OrderPlaced", 2), ("status=DONE&tenant=missing", 0)]
    {
        let document = support.get(&format!("{ORDERS_PATH}/count?{query}")).await.ok();
        assert_eq!(document, serde_json::json!({"count": count}), "{query}");
    }
    support.get(&format!("{ORDERS_PATH}/count?limit=1")).await.refused(400);
}

#[tokio::test]
async fn groups_and_findings_report_dead_events() {
    let support = ApiFixture::guarded();
    let groups = support.get(&format!("{ORDERS_PATH}/dead/groups?limit=1")).await.ok();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&groups["groups"][0]["count"], &groups["groups"][0]["event_type"]),
        (&2.into(), &"OrderPlaced".into())
    );
    let findings = support.get(&format!("{ORDERS_PATH}/findings")).await.ok();
    assert_eq!(findings["findings"][0]["what"], "DEAD events: 3");
    assert_eq!(findings["findings"][0]["severity"], "warning");
}

#[tokio::test]
async fn audit_is_paged_newest_first() {
    let support = ApiFixture::guarded();
    for n in 0..3 {
        support
            .post(&format!("{ORDERS_PATH}/dead/replay"), serde_json::json!({"ids": [format!("dead-{n}")]}))
            .await
            .ok();
    }
    let first = support.get(&format!("{ORDERS_PATH}/audit?limit=2")).await.ok();
    assert_eq!(first["entries"][0]["target"], "dead-2");
    assert!(first["entries"][0]["at"].as_str().unwrap().ends_with('Z'));
    let rest = support.get(&format!("{ORDERS_PATH}/audit?limit=2&after={}", first["next"])).await.ok();
    assert_eq!(rest["entries"].as_array().unwrap().len(), 1);
    assert!(rest["next"].is_null());
}

#[tokio::test]
async fn unknown_event_outbox_and_path_are_not_found() {
    let support = ApiFixture::guarded();
    support.get(&format!("{ORDERS_PATH}/events/missing")).await.refused(404);
    support.get("/api/v1/outboxes/other/stats").await.refused(404);
    support.get("/api/v2/outboxes").await.refused(404);
    support.get("/").await.refused(404);
    let reply = support.post(&format!("{ORDERS_PATH}/stats"), serde_json::json!({})).await;
    reply.refused(405);
    assert_eq!(reply.headers["allow"], "GET,HEAD");
}
