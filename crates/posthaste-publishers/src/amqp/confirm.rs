//! Sends a batch and says what became of each message.

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
use super::message::Ready;
use crate::refused::one_line;

/// A message that no queue takes comes back; otherwise it is confirmed, and gone.
const OPTIONS: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// A message of whose fate nothing is known, because of others on its channel: the broker closed the channel, or
/// sent back one that is like it.
pub(super) struct Cut {
    /// Its place among the messages.
    pub(super) at: usize,
    pub(super) why: String,
}

type Sending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends all of them, in order, then waits for all confirmations. Returns those of whose fate nothing is
/// known because of others on the channel.
pub(super) async fn publish(
    connection: &AmqpConnection,
    messages: &[Ready],
    outcomes: &mut [Option<Outcome>],
    deadline: Instant,
) -> Vec<Cut> {
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
    let answers = send(&channel, messages, deadline).await;
    if answers.iter().any(Option::is_none) {
        connection.give_up_if_silent(asked);
    }
    if answers.iter().all(|answer| matches!(answer, Some(Ok(_)))) {
        connection.give_back(channel);
    }
    judge(connection, messages, answers, outcomes)
}

/// One answer per message; none where there was none in time.
async fn send(
    channel: &Channel,
    messages: &[Ready],
    deadline: Instant,
) -> Vec<Option<lapin::Result<Confirmation>>> {
    answers(messages.iter().map(|message| sending(channel, message)).collect(), deadline).await
}

async fn answers<T>(mut sendings: Vec<Sending<'_, T>>, deadline: Instant) -> Vec<Option<T>> {
    // The first poll numbers a message and queues it, so this is what keeps them in order. Nobody needs to be
    // woken for it.
    let mut answers: Vec<_> = sendings.iter_mut().map(|sending| sending.as_mut().now_or_never()).collect();
    let all = async {
        for (sending, answer) in sendings.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                *answer = Some(sending.await);
            }
        }
    };
    if timeout_at(deadline, all).await.is_err() {
        // What came back stands in the answer of any message, and that one was there before the answer of the
        // message itself. So we look until there is nothing new: then no answer that we saw has an elder that
        // we did not.
        while look(&mut sendings, &mut answers) {}
    }
    answers
}

/// Takes the answers that are there now. Whether there were any.
fn look<T>(sendings: &mut [Sending<'_, T>], answers: &mut [Option<T>]) -> bool {
    let mut is_new = false;
    for (sending, answer) in sendings.iter_mut().zip(answers) {
        if answer.is_none() {
            *answer = sending.as_mut().now_or_never();
            is_new |= answer.is_some();
        }
    }
    is_new
}

fn sending<'a>(channel: &'a Channel, message: &'a Ready) -> Sending<'a, lapin::Result<Confirmation>> {
    Box::pin(async move {
        let sent = channel.basic_publish(
            message.exchange.clone(),
            message.routing_key.clone(),
            OPTIONS,
            &message.body,
            message.properties.clone(),
        );
        sent.await?.await
    })
}

/// lapin hands out what came back, first come first served, with the next confirmation there is, which is that of
/// some other message when several are confirmed at once. So when nothing was handed out, nothing came back of what
/// is confirmed; and when something was, all of it was only if all confirmations are there.
fn judge(
    connection: &AmqpConnection,
    messages: &[Ready],
    answers: Vec<Option<lapin::Result<Confirmation>>>,
    outcomes: &mut [Option<Outcome>],
) -> Vec<Cut> {
    let mut came_back = Vec::new();
    let mut is_complete = true;
    let answers: Vec<_> = answers
        .into_iter()
        .map(|answer| {
            is_complete &= matches!(answer, Some(Ok(_)));
            let is_ack = answer.as_ref().map(|answer| answer.as_ref().map(Confirmation::is_ack));
            let verdict = match is_ack {
                None => Verdict::Unknown,
                Some(Ok(true)) => Verdict::Taken,
                Some(Ok(false)) => Verdict::Refused,
                Some(Err(error)) if is_of_the_channel(error, connection) => Verdict::Cut(broker_text(error)),
                Some(Err(error)) => Verdict::Lost(connection_error(error)),
            };
            came_back.extend(answer.and_then(Result::ok).and_then(Confirmation::take_message));
            verdict
        })
        .collect();
    let are_returns_known = is_complete || came_back.is_empty();
    let returned = returned(messages, &came_back);
    let mut cut = Vec::new();
    for (at, (message, verdict)) in messages.iter().zip(answers).enumerate() {
        let outcome = match (returned.get(&mark(message)), verdict) {
            (Some(alike), _) if alike.came_back < alike.sent => {
                cut.push(Cut { at, why: alike.reason.clone() });
                continue;
            }
            (Some(alike), _) => Outcome::retry(unroutable(message, &alike.reason)),
            (None, Verdict::Taken) if are_returns_known => Outcome::Done,
            (None, Verdict::Taken | Verdict::Unknown) => Outcome::no_answer(NO_ANSWER_REASON),
            (None, Verdict::Refused) => Outcome::busy(REFUSED),
            (None, Verdict::Lost(why)) => Outcome::no_connection(why),
            (None, Verdict::Cut(why)) => {
                cut.push(Cut { at, why });
                continue;
            }
        };
        outcomes[message.at] = Some(outcome);
    }
    cut
}

/// By what we know a message again that comes back: exchange, routing key and id. The id alone is not enough,
/// because two events can have the same.
type Mark<'a> = (&'a str, &'a str, &'a str);

fn mark(message: &Ready) -> Mark<'_> {
    (message.exchange.as_str(), message.routing_key.as_str(), message.id.as_str())
}

fn mark_of_returned(message: &BasicReturnMessage) -> Mark<'_> {
    let sent = &message.delivery;
    let id = sent.properties.message_id().as_ref().map(ShortString::as_str).unwrap_or_default();
    (sent.exchange.as_str(), sent.routing_key.as_str(), id)
}

/// Messages with the same mark. Where some of them came back and others did not, as an exchange that routes by
/// headers can do it, nothing says which: each is sent again alone.
struct Alike {
    sent: usize,
    came_back: usize,
    reason: String,
}

fn returned<'a>(messages: &'a [Ready], came_back: &'a [BasicReturnMessage]) -> HashMap<Mark<'a>, Alike> {
    let mut returned: HashMap<Mark<'_>, Alike> = HashMap::new();
    for message in came_back {
        let reason = || format!("{} {}", message.reply_code, message.reply_text);
        let alike = returned.entry(mark_of_returned(message));
        alike.or_insert_with(|| Alike { sent: 0, came_back: 0, reason: reason() }).came_back += 1;
    }
    for message in messages {
        if let Some(alike) = returned.get_mut(&mark(message)) {
            alike.sent += 1;
        }
    }
    returned
}

enum Verdict {
    Taken,
    Refused,
    Unknown,
    /// With the connection.
    Lost(String),
    /// With the channel alone.
    Cut(String),
}

/// A nack is about the queue and never about the message: a message that is wrong closes its channel or comes
/// back. So it is no attempt of the event, and there is room again when a consumer has taken something.
const REFUSED: &str = "RabbitMQ refused the message (basic.nack): a queue is full, or could not store it";

/// The connection lives, and another channel will do.
fn is_of_the_channel(error: &lapin::Error, connection: &AmqpConnection) -> bool {
    let is_state = matches!(error.kind(), ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidChannel(_));
    error.is_amqp_soft_error() || (is_state && connection.is_alive())
}

fn unroutable(message: &Ready, reason: &str) -> String {
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
        let sendings: Vec<Sending<'_, usize>> =
            vec![Box::pin(first), Box::pin(at_look(2, 2)), Box::pin(at_look(1, 3))];
        assert_eq!(answers(sendings, Instant::now()).await, [Some(1), Some(2), Some(3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_answers_is_left_alone_at_the_deadline() {
        let sendings: Vec<Sending<'_, u8>> = vec![Box::pin(std::future::pending()), Box::pin(async { 2 })];
        assert_eq!(answers(sendings, Instant::now()).await, [None, Some(2)]);
    }
}
