//! Followers of `tail`.

use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use futures_util::StreamExt;
use posthaste::Timestamp;
use tokio::time::Instant;

use super::support::{ApiFixture, ORDERS_PATH, VIEWER_TOKEN, request};
use crate::wire::{TailLine, Time};

/// A follower that has received the first empty line.
struct Follower(axum::body::BodyDataStream);

impl Follower {
    async fn new(support: &ApiFixture, query: &str) -> Self {
        let response = follow(support, query).await;
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let mut follower = Self(response.into_body().into_data_stream());
        assert_eq!(follower.next().await.as_deref(), Some("\n"));
        follower
    }

    async fn next(&mut self) -> Option<String> {
        let bytes = self.0.next().await?.unwrap();
        Some(String::from_utf8(bytes.into()).unwrap())
    }
}

async fn follow(support: &ApiFixture, query: &str) -> Response<Body> {
    support
        .open_stream(request(Method::GET, &format!("{ORDERS_PATH}/tail{query}"), Some(VIEWER_TOKEN), None))
        .await
}

fn line(event_type: &str, outcome: &str) -> TailLine {
    TailLine {
        at: Time(Timestamp::from_micros(1_767_225_600_000_000)),
        id: "e-1".to_owned(),
        event_type: event_type.to_owned(),
        aggregate_type: "Order".to_owned(),
        aggregate_id: None,
        tenant_id: None,
        attempt: 1,
        outcome: outcome.to_owned(),
    }
}

#[tokio::test]
async fn follower_gets_what_matches_as_it_happens() {
    let support = ApiFixture::guarded();
    let mut follower = Follower::new(&support, "?type=Placed&outcome=done").await;
    for (event_type, outcome) in [("Mail", "done"), ("Placed", "retry"), ("Placed", "done")] {
        support.served.feed().send(line(event_type, outcome));
    }
    let heard: TailLine = serde_json::from_str(&follower.next().await.unwrap()).unwrap();
    assert_eq!(heard, line("Placed", "done"));
}

#[tokio::test]
async fn absent_tenant_matches_no_tenant() {
    let support = ApiFixture::guarded();
    let mut follower = Follower::new(&support, "?tenant=acme").await;
    support.served.feed().send(line("Placed", "done"));
    support.served.feed().send(TailLine { tenant_id: Some("acme".to_owned()), ..line("Placed", "dead") });
    assert!(follower.next().await.unwrap().contains("dead"));
}

#[tokio::test(start_paused = true)]
async fn empty_line_is_sent_every_fifteen_seconds() {
    let support = ApiFixture::guarded();
    let mut follower = Follower::new(&support, "").await;
    let begun = Instant::now();
    assert_eq!(follower.next().await.as_deref(), Some("\n"));
    assert_eq!(begun.elapsed(), Duration::from_secs(15));
}

#[tokio::test]
async fn slow_follower_gets_the_number_of_missed_lines() {
    let support = ApiFixture::guarded();
    let mut follower = Follower::new(&support, "").await;
    for _ in 0..4096 + 5 {
        support.served.feed().send(line("Placed", "done"));
    }
    assert_eq!(follower.next().await.as_deref(), Some("{\"missed\":5}\n"));
    assert!(follower.next().await.unwrap().contains("Placed"));
}

#[tokio::test]
async fn follower_is_disconnected_when_the_relay_stops() {
    let support = ApiFixture::guarded();
    let mut follower = Follower::new(&support, "").await;
    support.stop.cancel();
    assert_eq!(follower.next().await, None);
}

#[tokio::test]
async fn too_many_followers_are_refused_until_one_leaves() {
    let support = ApiFixture::guarded();
    let mut followers = Vec::new();
    for _ in 0..16 {
        followers.push(Follower::new(&support, "").await);
    }
    assert_eq!(follow(&support, "").await.status(), 503);
    followers.pop();
    assert_eq!(follow(&support, "").await.status(), 200);
}
