//! Publisher confirms: sends a batch on one channel and waits for the broker's confirmations.

use std::pin::Pin;

use futures_util::FutureExt as _;
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
use posthaste::Outcome;
use tokio::time::{Instant, timeout_at};

use super::connection::AmqpConnection;
use super::message::PreparedMessage;
use super::outcome::{Undecided, record_outcomes};

/// `mandatory`: RabbitMQ returns a message that no queue takes. Without it, such a message is confirmed and
/// discarded.
const PUBLISH_OPTIONS: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

type PublishFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends all messages in order, then waits for all confirmations, and writes the result of each into `outcomes`.
/// Returns the messages without a result, because another message on the same channel made theirs unknown.
pub(super) async fn publish(
    connection: &AmqpConnection,
    messages: &[PreparedMessage],
    outcomes: &mut [Option<Outcome>],
    deadline: Instant,
) -> Vec<Undecided> {
    if messages.is_empty() {
        return Vec::new();
    }
    let channel = match connection.channel(deadline).await {
        Ok(channel) => channel,
        Err(none) => {
            for message in messages {
                outcomes[message.at] = Some(none.outcome());
            }
            return Vec::new();
        }
    };
    let sent_at = Instant::now();
    let confirmations = send(&channel, messages, deadline).await;
    if confirmations.iter().any(Option::is_none) {
        connection.give_up_if_silent(sent_at);
    }
    if confirmations.iter().all(|confirmation| matches!(confirmation, Some(Ok(_)))) {
        connection.give_back(channel);
    }
    record_outcomes(connection, messages, confirmations, outcomes)
}

/// Returns one confirmation per message; `None` where none arrived before the deadline.
async fn send(
    channel: &Channel,
    messages: &[PreparedMessage],
    deadline: Instant,
) -> Vec<Option<lapin::Result<Confirmation>>> {
    wait_for_confirmations(messages.iter().map(|message| publish_one(channel, message)).collect(), deadline)
        .await
}

async fn wait_for_confirmations<T>(
    mut futures: Vec<PublishFuture<'_, T>>,
    deadline: Instant,
) -> Vec<Option<T>> {
    // The first poll gives a message its delivery tag and queues it, so polling in order keeps the messages in
    // order. No waker is needed for this poll.
    let mut confirmations: Vec<_> = futures.iter_mut().map(|future| future.as_mut().now_or_never()).collect();
    let all = async {
        for (future, confirmation) in futures.iter_mut().zip(&mut confirmations) {
            if confirmation.is_none() {
                *confirmation = Some(future.await);
            }
        }
    };
    if timeout_at(deadline, all).await.is_err() {
        // lapin attaches a returned message to the next confirmation it hands out, which may be that of another message
        // and never comes after the confirmation of the returned message itself. So poll until nothing new arrives:
        // then every confirmation that precedes one already read has been read too.
        while poll_pending(&mut futures, &mut confirmations) {}
    }
    confirmations
}

/// Takes the confirmations that have arrived. Returns whether there were any.
fn poll_pending<T>(futures: &mut [PublishFuture<'_, T>], confirmations: &mut [Option<T>]) -> bool {
    let mut is_new = false;
    for (future, confirmation) in futures.iter_mut().zip(confirmations) {
        if confirmation.is_none() {
            *confirmation = future.as_mut().now_or_never();
            is_new |= confirmation.is_some();
        }
    }
    is_new
}

fn publish_one<'a>(
    channel: &'a Channel,
    message: &'a PreparedMessage,
) -> PublishFuture<'a, lapin::Result<Confirmation>> {
    Box::pin(async move {
        let sent = channel.basic_publish(
            message.exchange.clone(),
            message.routing_key.clone(),
            PUBLISH_OPTIONS,
            &message.body,
            message.properties.clone(),
        );
        sent.await?.await
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::Poll;

    use super::*;

    /// The first confirmation may carry the returned message of the second.
    #[tokio::test(start_paused = true)]
    async fn confirmation_that_preceded_one_already_read_is_read_too() {
        let is_there = AtomicBool::new(false);
        let first = std::future::poll_fn(|_| match is_there.load(Ordering::SeqCst) {
            true => Poll::Ready(1),
            false => Poll::Pending,
        });
        let at_look = |look: usize, number: usize| {
            let (polls, is_there) = (AtomicUsize::new(0), &is_there);
            std::future::poll_fn(move |_| {
                if polls.fetch_add(1, Ordering::SeqCst) < look {
                    return Poll::Pending;
                }
                is_there.store(number == 2, Ordering::SeqCst);
                Poll::Ready(number)
            })
        };
        let futures: Vec<PublishFuture<'_, usize>> =
            vec![Box::pin(first), Box::pin(at_look(2, 2)), Box::pin(at_look(1, 3))];
        assert_eq!(wait_for_confirmations(futures, Instant::now()).await, [Some(1), Some(2), Some(3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn missing_confirmation_is_none_after_the_deadline() {
        let futures: Vec<PublishFuture<'_, u8>> =
            vec![Box::pin(std::future::pending()), Box::pin(async { 2 })];
        assert_eq!(wait_for_confirmations(futures, Instant::now()).await, [None, Some(2)]);
    }
}
