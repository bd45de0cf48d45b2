//! Exchange lookup before a message is sent. A message to an exchange that does not exist makes the broker close
//! the channel, and then the result of every other message on that channel is unknown.

use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use posthaste::Outcome;
use tokio::time::{Instant, timeout_at};

use super::connection::{AmqpConnection, NoChannel, broker_text, connection_error, lock};
use super::message::PreparedMessage;
use crate::unsendable::Unsendable;

/// How many exchanges the cache holds. It is emptied when a template produces more.
const MAX_KNOWN_EXCHANGES: usize = 1_000;

impl AmqpConnection {
    /// Removes messages whose properties do not fit into one frame: the broker would close the connection on them.
    pub(super) fn refuse_large_headers(
        &self,
        messages: Vec<PreparedMessage>,
        outcomes: &mut [Option<Outcome>],
    ) -> Vec<PreparedMessage> {
        let most = self.largest_frame();
        let mut fitting = Vec::with_capacity(messages.len());
        for message in messages {
            if message.header_bytes <= most {
                fitting.push(message);
                continue;
            }
            let reason = format!(
                "the headers have about {} bytes, and RabbitMQ accepts at most {most}",
                message.header_bytes
            );
            outcomes[message.at] = Some(Unsendable::new(reason).into());
        }
        fitting
    }

    /// Removes messages to exchanges that do not exist, and writes their outcomes.
    pub(super) async fn refuse_missing_exchanges(
        &self,
        messages: &mut Vec<PreparedMessage>,
        outcomes: &mut [Option<Outcome>],
        deadline: Instant,
    ) {
        let mut unknown: Vec<ShortString> = Vec::new();
        for message in messages.iter() {
            if !unknown.contains(&message.exchange) && !self.is_known(&message.exchange) {
                unknown.push(message.exchange.clone());
            }
        }
        for exchange in unknown {
            let Err(why) = self.check_exchange(&exchange, deadline).await else { continue };
            messages.retain(|message| {
                let goes_there = message.exchange == exchange;
                if goes_there {
                    outcomes[message.at] = Some(why.outcome());
                }
                !goes_there
            });
        }
    }

    /// Empties the cache. After the broker closed a channel, an exchange may have been deleted.
    pub(super) fn forget_exchanges(&self) {
        lock(&self.known_exchanges).clear();
    }

    /// Whether the exchange is in the cache. The default exchange always exists.
    fn is_known(&self, exchange: &ShortString) -> bool {
        exchange.as_str().is_empty() || lock(&self.known_exchanges).contains(exchange)
    }

    /// Looks the exchange up, on a channel of its own, because the broker closes the channel if there is no such
    /// exchange.
    pub(super) async fn check_exchange(
        &self,
        exchange: &ShortString,
        deadline: Instant,
    ) -> Result<(), ExchangeError> {
        let channel = self.plain_channel(deadline).await?;
        let sent_at = Instant::now();
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let lookup =
            channel.exchange_declare(exchange.clone(), ExchangeKind::Topic, passive, FieldTable::default());
        match timeout_at(deadline, lookup).await {
            Ok(Ok(())) => {
                self.remember_exchange(exchange);
                Ok(())
            }
            Ok(Err(error)) if error.is_amqp_soft_error() => Err(ExchangeError::Refused(broker_text(&error))),
            Ok(Err(error)) => Err(NoChannel::NoConnection(connection_error(&error)).into()),
            Err(_) => Err(self.no_answer(sent_at).into()),
        }
    }

    fn remember_exchange(&self, exchange: &ShortString) {
        let mut known = lock(&self.known_exchanges);
        if known.len() >= MAX_KNOWN_EXCHANGES {
            known.clear();
        }
        known.insert(exchange.clone());
    }
}

/// Reasons why nothing can be sent to an exchange.
pub(super) enum ExchangeError {
    /// The broker's error text: the exchange does not exist, or the user may not use it.
    Refused(String),
    NoChannel(NoChannel),
}

impl ExchangeError {
    /// The text for an operator who runs a check.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Refused(why) => {
                format!(
                    "the exchange cannot be used: create it, or check its name and the user's rights: {why}"
                )
            }
            Self::NoChannel(none) => none.why(),
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(why) => Outcome::retry(format!("the exchange cannot be used: {why}")),
            Self::NoChannel(none) => none.outcome(),
        }
    }
}

impl From<NoChannel> for ExchangeError {
    fn from(none: NoChannel) -> Self {
        Self::NoChannel(none)
    }
}
