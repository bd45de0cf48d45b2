//! Publisher confirms: sends a batch and says what became of each message.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt as _;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, ErrorKind};
use posthaste::Outcome;
use tokio::time::{Instant, timeout_at};

use super::connection::{AmqpConnection, NO_ANSWER_REASON, broker_text, connection_error};
use super::message::PreparedMessage;
use crate::one_line::one_line;

/// A message that no queue takes comes back; otherwise it is confirmed, and gone.
const PUBLISH_OPTIONS: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// A message of whose fate nothing is known, because of others on its channel: the broker closed the channel, or
/// sent back one that is like it.
pub(super) struct Undecided {
    /// Its place among the messages.
    pub(super) at: usize,
    pub(super) why: String,
}

type PublishFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends all of them, in order, then waits for all confirmations. Returns those of whose fate nothing is
/// known because of others on the channel.
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
    let asked = Instant::now();
    let confirmations = send(&channel, messages, deadline).await;
    if confirmations.iter().any(Option::is_none) {
        connection.give_up_if_silent(asked);
    }
    if confirmations.iter().all(|confirmation| matches!(confirmation, Some(Ok(_)))) {
        connection.give_back(channel);
    }
    record_outcomes(connection, messages, confirmations, outcomes)
}

/// One confirmation per message; none where there was none in time.
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
    // The first poll numbers a message and queues it, so this is what keeps them in order. Nobody needs to be
    // woken for it.
    let mut confirmations: Vec<_> = futures.iter_mut().map(|future| future.as_mut().now_or_never()).collect();
    let all = async {
        for (future, confirmation) in futures.iter_mut().zip(&mut confirmations) {
            if confirmation.is_none() {
                *confirmation = Some(future.await);
            }
        }
    };
    if timeout_at(deadline, all).await.is_err() {
        // What came back stands in the confirmation of any message, and that one was there before the confirmation
        // of the message itself. So we poll until there is nothing new: then no confirmation that we saw has an
        // elder that we did not.
        while poll_pending(&mut futures, &mut confirmations) {}
    }
    confirmations
}

/// Takes the confirmations that are there now. Whether there were any.
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

/// lapin hands out what came back, first come first served, with the next confirmation there is, which is that of
/// some other message when several are confirmed at once. So when nothing was handed out, nothing came back of what
/// is confirmed; and when something was, all of it was only if all confirmations are there.
fn record_outcomes(
    connection: &AmqpConnection,
    messages: &[PreparedMessage],
    confirmations: Vec<Option<lapin::Result<Confirmation>>>,
    outcomes: &mut [Option<Outcome>],
) -> Vec<Undecided> {
    let mut returns = Vec::new();
    let mut is_complete = true;
    let replies: Vec<_> = confirmations
        .into_iter()
        .map(|confirmation| {
            is_complete &= matches!(confirmation, Some(Ok(_)));
            let is_ack =
                confirmation.as_ref().map(|confirmation| confirmation.as_ref().map(Confirmation::is_ack));
            let reply = match is_ack {
                None => BrokerReply::NoReply,
                Some(Ok(true)) => BrokerReply::Acked,
                Some(Ok(false)) => BrokerReply::Nacked,
                Some(Err(error)) if is_channel_error(error, connection) => {
                    BrokerReply::ChannelClosed(broker_text(error))
                }
                Some(Err(error)) => BrokerReply::ConnectionLost(connection_error(error)),
            };
            returns.extend(confirmation.and_then(Result::ok).and_then(Confirmation::take_message));
            reply
        })
        .collect();
    let are_returns_known = is_complete || returns.is_empty();
    let counts = count_returns(messages, &returns);
    let mut undecided = Vec::new();
    for (at, (message, reply)) in messages.iter().zip(replies).enumerate() {
        let outcome = match (counts.get(&key_of(message)), reply) {
            (Some(count), _) if count.returned < count.sent => {
                undecided.push(Undecided { at, why: count.reason.clone() });
                continue;
            }
            (Some(count), _) => Outcome::retry(unroutable(message, &count.reason)),
            (None, BrokerReply::Acked) if are_returns_known => Outcome::done(),
            (None, BrokerReply::Acked | BrokerReply::NoReply) => Outcome::no_answer(NO_ANSWER_REASON),
            (None, BrokerReply::Nacked) => Outcome::busy(NACK_REASON),
            (None, BrokerReply::ConnectionLost(why)) => Outcome::no_connection(why),
            (None, BrokerReply::ChannelClosed(why)) => {
                undecided.push(Undecided { at, why });
                continue;
            }
        };
        outcomes[message.at] = Some(outcome);
    }
    undecided
}

/// By what we know a message again that comes back: exchange, routing key and id. The id alone is not enough,
/// because two events can have the same.
type MessageKey<'a> = (&'a str, &'a str, &'a str);

fn key_of(message: &PreparedMessage) -> MessageKey<'_> {
    (message.exchange.as_str(), message.routing_key.as_str(), message.id.as_str())
}

fn key_of_returned(message: &BasicReturnMessage) -> MessageKey<'_> {
    let sent = &message.delivery;
    let id = sent.properties.message_id().as_ref().map(ShortString::as_str).unwrap_or_default();
    (sent.exchange.as_str(), sent.routing_key.as_str(), id)
}

/// How many messages with the same key were sent and came back. Where some of them came back and others did not, as an exchange that routes by
/// headers can do it, nothing says which: each is sent again alone.
struct ReturnCount {
    sent: usize,
    returned: usize,
    reason: String,
}

fn count_returns<'a>(
    messages: &'a [PreparedMessage],
    returns: &'a [BasicReturnMessage],
) -> HashMap<MessageKey<'a>, ReturnCount> {
    let mut counts: HashMap<MessageKey<'_>, ReturnCount> = HashMap::new();
    for message in returns {
        let reason = || format!("{} {}", message.reply_code, message.reply_text);
        let count = counts.entry(key_of_returned(message));
        count.or_insert_with(|| ReturnCount { sent: 0, returned: 0, reason: reason() }).returned += 1;
    }
    for message in messages {
        if let Some(count) = counts.get_mut(&key_of(message)) {
            count.sent += 1;
        }
    }
    counts
}

/// What the broker said about a message, if anything.
enum BrokerReply {
    Acked,
    Nacked,
    NoReply,
    ConnectionLost(String),
    /// The connection lives.
    ChannelClosed(String),
}

/// A nack is about the queue and never about the message: a message that is wrong closes its channel or comes
/// back. So it is no attempt of the event, and there is room again when a consumer has taken something.
const NACK_REASON: &str = "RabbitMQ refused the message (basic.nack): a queue is full, or could not store it";

/// The connection lives, and another channel will do.
fn is_channel_error(error: &lapin::Error, connection: &AmqpConnection) -> bool {
    let is_state = matches!(error.kind(), ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidChannel(_));
    error.is_amqp_soft_error() || (is_state && connection.is_alive())
}

fn unroutable(message: &PreparedMessage, reason: &str) -> String {
    let (exchange, key) = (&message.exchange, &message.routing_key);
    let place = match exchange.as_str() {
        "" => format!("there is no queue `{key}`"),
        name => format!("no queue is bound to the exchange `{name}` for the routing key `{key}`"),
    };
    one_line(format!("RabbitMQ returned the message ({reason}): {place}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::Poll;

    use super::*;

    /// The first one may carry what came back of the second.
    #[tokio::test(start_paused = true)]
    async fn answer_that_was_there_before_one_that_we_saw_is_seen_too() {
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
    async fn what_never_answers_is_left_alone_at_the_deadline() {
        let futures: Vec<PublishFuture<'_, u8>> =
            vec![Box::pin(std::future::pending()), Box::pin(async { 2 })];
        assert_eq!(wait_for_confirmations(futures, Instant::now()).await, [None, Some(2)]);
    }
}
