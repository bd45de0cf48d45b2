//! A broker is asked whether it is there: before it runs, while it runs, while it is held, and after it was killed.

use std::time::Duration;

use posthaste::Outcome;
use posthaste::admin::Severity;
use posthaste_publishers::{Publisher, Unreached};
use posthaste_testkit::server::wait_for_server;
use tokio::time::Instant;

use super::Broker;
use crate::delivery::{codes_of, deliver_one, order, publisher, text_of};
use crate::secrets::SENTINEL;

/// Longer than the timeout of any publisher here.
const CHECK_TIMEOUT: Duration = Duration::from_secs(12);

/// What a check says is so, it ends in time, and nothing of it arrives.
pub(crate) async fn broker_is_checked<B: Broker>() {
    let mut broker = B::own().await;
    let early = publisher(&broker.url());
    println!("it does not run yet: {}", unreachable_text(&*early).await);
    assert_eq!(codes_of(&*early).await, [UNREACHABLE], "and nothing else is said of it");

    broker.start().await;
    wait_for_server("the check sees it", async || early.check().await.is_ok()).await;
    let other = publisher(&broker.url());
    assert_eq!(other.check().await, Ok(()), "the first question is enough");
    let batch = [order()];
    let (first, second, outcomes) = tokio::join!(other.check(), other.check(), other.deliver(&batch));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert!(!codes_of(&*other).await.contains(&UNREACHABLE), "it is there");
    assert!(matches!(outcomes[..], [Outcome::Done { .. }]), "{outcomes:?}");
    let received: Vec<_> = broker.received(1).await.into_iter().map(|message| message.id).collect();
    assert_eq!(received, [batch[0].id().clone()], "nothing arrives of a check");

    broker.server().suspend();
    let answer = check_in_time(&*other).await;
    broker.server().resume();
    // The system takes connections for a receiver of webhooks that is held.
    if !broker.url().starts_with("http") {
        println!("it is held: {}", one_line_that_advises(answer.expect_err("it is held")));
    }
    wait_for_server("it goes on", async || other.check().await.is_ok()).await;

    broker.server().kill();
    println!("it was killed: {}", unreachable_text(&*other).await);
    broker.start().await;
    wait_for_server("it is there again", async || other.check().await.is_ok()).await;
}

const UNREACHABLE: (&str, Severity) = ("destination-unreachable", Severity::Problem);

/// The other side of this URL does not let us in; the text of that.
pub(crate) async fn is_out_of_reach(url: &str) -> String {
    let publisher = publisher(url);
    assert!(!format!("{publisher:?}").contains(SENTINEL));
    unreachable_text(&*publisher).await
}

/// The same, and a delivery is told the same.
pub(crate) async fn lets_nobody_in(url: &str) -> String {
    let text = text_of("no connection", &deliver_one(&publisher(url), order()).await);
    assert_eq!(is_out_of_reach(url).await, text);
    text
}

async fn unreachable_text(publisher: &dyn Publisher) -> String {
    one_line_that_advises(check_in_time(publisher).await.expect_err("it is not there"))
}

/// Says what to do, in one line, without a secret.
pub(crate) fn one_line_that_advises(why: Unreached) -> String {
    let text = why.to_string();
    assert!(!format!("{text} {why:?}").contains(SENTINEL), "{text}");
    assert!(!text.contains(char::is_control), "{text}");
    assert!(text.contains("check "), "it says what to do: {text}");
    text
}

async fn check_in_time(publisher: &dyn Publisher) -> Result<(), Unreached> {
    let started = Instant::now();
    let answer = publisher.check().await;
    assert!(started.elapsed() < CHECK_TIMEOUT, "{:?}", started.elapsed());
    answer
}
