//! Outcomes of the messages of a batch, from the broker's confirmations and returned messages.

use std::collections::HashMap;

use lapin::message::BasicReturnMessage;
use lapin::types::ShortString;
use lapin::{Confirmation, ErrorKind};
use posthaste::Outcome;

use super::connection::{AmqpConnection, NO_ANSWER_REASON, broker_text, connection_error};
use super::message::PreparedMessage;
use crate::operator_text::one_line;

/// A message whose result is unknown because of another message on its channel: the broker closed the channel, or
/// returned some but not all messages with the same key.
pub(super) struct Undecided {
    /// Its index among the messages that were sent.
    pub(super) at: usize,
    pub(super) why: String,
}

/// Writes the outcome of each message into `outcomes`, and returns the undecided messages.
///
/// lapin attaches a returned message to the next confirmation that it hands out. That is the confirmation of
/// another message if several are confirmed together. So if no confirmation carries a returned message, no
/// confirmed message was returned. If one does, all returned messages are known only once all confirmations have
/// arrived.
pub(super) fn record_outcomes(
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

/// Identifies a returned message: exchange, routing key and id. The id alone is not enough, because two events can
/// have the same id.
type MessageKey<'a> = (&'a str, &'a str, &'a str);

fn key_of(message: &PreparedMessage) -> MessageKey<'_> {
    (message.exchange.as_str(), message.routing_key.as_str(), message.id.as_str())
}

fn key_of_returned(message: &BasicReturnMessage) -> MessageKey<'_> {
    let sent = &message.delivery;
    let id = sent.properties.message_id().as_ref().map(ShortString::as_str).unwrap_or_default();
    (sent.exchange.as_str(), sent.routing_key.as_str(), id)
}

/// How many messages with the same key were sent, and how many of them were returned. An exchange that routes by
/// headers can return only some of them. The broker does not say which, so each of them is sent again alone.
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

/// The broker's reply to one message.
enum BrokerReply {
    Acked,
    Nacked,
    /// No confirmation before the deadline.
    NoReply,
    ConnectionLost(String),
    /// The broker closed the channel and kept the connection.
    ChannelClosed(String),
}

/// A nack concerns the queue and never the message: for a wrong message, the broker closes the channel or returns
/// the message. So a nack costs no attempt. The queue has room again once a consumer has taken messages.
const NACK_REASON: &str = "RabbitMQ refused the message (basic.nack): a queue is full, or could not store it";

/// Whether only the channel failed, so that another channel on the same connection can be used.
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
