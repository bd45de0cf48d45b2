//! `Publisher::check` on a broker that is not started, running, suspended and killed.

use std::time::Duration;

use posthaste::Outcome;
use posthaste::admin::Severity;
use posthaste_publishers::{CheckError, Publisher};
use posthaste_testkit::server::wait_for_server;
use tokio::time::Instant;

use super::Broker;
use crate::delivery::{codes_of, deliver_one, order, publisher, text_of};
use crate::secrets::SENTINEL;

/// Longer than the timeout of any publisher here.
const CHECK_TIMEOUT: Duration = Duration::from_secs(12);

/// The check reports the broker's state, returns in time, and sends no event.
pub(crate) async fn check_reports_the_state_of_the_broker<B: Broker>() {
    let mut broker = B::own().await;
    let early = publisher(&broker.url());
    println!("not started: {}", unreachable_text(&*early).await);
    assert_eq!(codes_of(&*early).await, [UNREACHABLE], "and there is no other finding");

    broker.start().await;
    wait_for_server("the check succeeds", async || early.check().await.is_ok()).await;
    let other = publisher(&broker.url());
    assert_eq!(other.check().await, Ok(()), "the first check succeeds");
    let batch = [order()];
    let (first, second, outcomes) = tokio::join!(other.check(), other.check(), other.deliver(&batch));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert!(!codes_of(&*other).await.contains(&UNREACHABLE), "it is reachable");
    assert!(matches!(outcomes[..], [Outcome::Done { .. }]), "{outcomes:?}");
    let received: Vec<_> = broker.received(1).await.into_iter().map(|message| message.id).collect();
    assert_eq!(received, [batch[0].id().clone()], "a check sends nothing");

    broker.server().suspend();
    let result = check_in_time(&*other).await;
    broker.server().resume();
    // The operating system accepts connections for a suspended webhook receiver.
    if !broker.url().starts_with("http") {
        println!("suspended: {}", assert_advice(result.expect_err("it is suspended")));
    }
    wait_for_server("it is resumed", async || other.check().await.is_ok()).await;

    broker.server().kill();
    println!("killed: {}", unreachable_text(&*other).await);
    broker.start().await;
    wait_for_server("it is reachable again", async || other.check().await.is_ok()).await;
}

const UNREACHABLE: (&str, Severity) = ("destination-unreachable", Severity::Problem);

/// Asserts that the check of this URL fails, and returns its error text.
pub(crate) async fn assert_unreachable(url: &str) -> String {
    let publisher = publisher(url);
    assert!(!format!("{publisher:?}").contains(SENTINEL));
    unreachable_text(&*publisher).await
}

/// Asserts that check and delivery fail with the same text, and returns it.
pub(crate) async fn assert_no_connection(url: &str) -> String {
    let text = text_of("no connection", &deliver_one(&publisher(url), order()).await);
    assert_eq!(assert_unreachable(url).await, text);
    text
}

async fn unreachable_text(publisher: &dyn Publisher) -> String {
    assert_advice(check_in_time(publisher).await.expect_err("it is unreachable"))
}

/// Asserts that the text is one line with the next step and without a secret.
pub(crate) fn assert_advice(why: CheckError) -> String {
    let text = why.to_string();
    assert!(!format!("{text} {why:?}").contains(SENTINEL), "{text}");
    assert!(!text.contains(char::is_control), "{text}");
    assert!(text.contains("check "), "it says what to do: {text}");
    text
}

async fn check_in_time(publisher: &dyn Publisher) -> Result<(), CheckError> {
    let started = Instant::now();
    let result = publisher.check().await;
    assert!(started.elapsed() < CHECK_TIMEOUT, "{:?}", started.elapsed());
    result
}
