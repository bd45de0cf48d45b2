//! Endpoints that change something.

use posthaste::memory::RawRow;
use posthaste::{Admin, Status};
use serde_json::json;

use super::support::{ApiFixture, ORDERS_PATH};

fn of_status(support: &ApiFixture, status: Status) -> usize {
    support.store.rows().iter().filter(|row| row.status == status).count()
}

#[tokio::test]
async fn named_dead_events_are_replayed_and_other_ids_are_returned() {
    let support = ApiFixture::guarded();
    let body = json!({"ids": ["dead-0", "new-0", "missing", "dead-0"]});
    let done = support.post(&format!("{ORDERS_PATH}/dead/replay"), body).await.ok();
    let expected = json!({
        "action": "replay", "changed": 1, "more": false, "unchanged": ["new-0", "missing", "dead-0"],
    });
    assert_eq!(done, expected);
    assert_eq!(of_status(&support, Status::Dead), 2);
}

#[tokio::test]
async fn matching_events_are_changed_until_none_is_left() {
    for verb in ["replay", "discard"] {
        let support = ApiFixture::guarded();
        super::support::fill(&support.store, 20);
        let mut calls = Vec::new();
        loop {
            let body = json!({"filter": {"type": "OrderPlaced", "error": "refused"}, "limit": 4});
            let done = support.post(&format!("{ORDERS_PATH}/dead/{verb}"), body).await.ok();
            calls.push(done["changed"].as_u64().unwrap());
            if done["more"] == false {
                break;
            }
        }
        assert_eq!(calls, [4, 4, 2, 0], "{verb}");
        let left = support.store.rows().into_iter().filter(|row| row.status == Status::Dead);
        assert!(left.into_iter().all(|row| row.event_type == "MailSent"));
    }
}

#[tokio::test]
async fn empty_filter_means_all_dead_events_only() {
    let support = ApiFixture::guarded();
    let done = support.post(&format!("{ORDERS_PATH}/dead/discard"), json!({"filter": {}})).await.ok();
    assert_eq!(done["changed"], 3);
    assert_eq!((of_status(&support, Status::Dead), support.store.len()), (0, 9));
}

#[tokio::test]
async fn events_younger_than_the_filter_stay() {
    let support = ApiFixture::guarded();
    support.store.insert_raw(RawRow::default().with_status_code(3).with_done_at(support.store.now()));
    let body = json!({"filter": {"older_than": "30m"}});
    assert_eq!(support.post(&format!("{ORDERS_PATH}/dead/discard"), body).await.ok()["changed"], 3);
    assert_eq!(of_status(&support, Status::Dead), 1);
}

#[tokio::test]
async fn forget_progress_is_for_replays_only() {
    let support = ApiFixture::guarded();
    let body = json!({"filter": {}, "limit": 1, "forget_progress": true});
    let done = support.post(&format!("{ORDERS_PATH}/dead/replay"), body.clone()).await.ok();
    assert_eq!(done["changed"], 1);
    support.post(&format!("{ORDERS_PATH}/dead/discard"), body).await.refused(400);
}

#[tokio::test]
async fn old_events_are_purged_or_archived() {
    let support = ApiFixture::guarded();
    support.store.insert_raw(RawRow::default().with_status_code(1).with_done_at(support.store.now()));
    let purge = async |body| support.post(&format!("{ORDERS_PATH}/purge"), body).await;
    let young = purge(json!({"what": "done", "older_than": "2h"})).await.ok();
    assert_eq!((&young["changed"], &young["more"]), (&0.into(), &false.into()));
    let done = purge(json!({"what": "done", "older_than": "30m", "limit": 2})).await.ok();
    assert_eq!((&done["changed"], &done["more"]), (&2.into(), &true.into()));
    purge(json!({"what": "dead", "older_than": "30m", "archive": true})).await.ok();
    assert_eq!(support.store.stats().await.unwrap().archived, 3);
    purge(json!({"what": "archived", "older_than": "30m", "archive": true})).await.refused(400);
    let gone = purge(json!({"what": "archived", "older_than": "30m"})).await.ok();
    assert_eq!((&gone["changed"], &gone["action"]), (&3.into(), &"purge".into()));
    assert_eq!(of_status(&support, Status::Done), 2);
}

#[tokio::test]
async fn routes_are_paused_and_resumed_by_their_names() {
    let support = ApiFixture::guarded();
    let ask = async |name: &str| support.post(&format!("{ORDERS_PATH}/routes/{name}"), json!({})).await;
    for (path, route) in [("mail", "mail"), ("Order.*", "Order.*"), ("a%2Fb", "a/b")] {
        let done = ask(&format!("{path}/pause")).await.ok();
        assert_eq!(done, json!({"action": "pause", "route": route, "changed": true}));
        assert_eq!(ask(&format!("{path}/pause")).await.ok()["changed"], false);
        assert_eq!(ask(&format!("{path}/resume")).await.ok()["changed"], true);
        assert_eq!(ask(&format!("{path}/resume")).await.ok()["changed"], false);
    }
    ask("typo/pause").await.refused(404);
    ask("typo/resume").await.refused(404);
    assert!(support.store.stats().await.unwrap().paused.is_empty());
}

#[tokio::test]
async fn route_that_was_removed_can_be_resumed() {
    let support = ApiFixture::guarded();
    support.store.pause("old", "ann").await.unwrap();
    let done = support.post(&format!("{ORDERS_PATH}/routes/old/resume"), json!({})).await.ok();
    assert_eq!(done["changed"], true);
    support.served.set_routes(vec!["new".to_owned()]);
    support.post(&format!("{ORDERS_PATH}/routes/mail/pause"), json!({})).await.refused(404);
    support.post(&format!("{ORDERS_PATH}/routes/new/pause"), json!({})).await.ok();
}
