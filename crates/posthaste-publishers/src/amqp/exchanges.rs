//! Which exchanges exist, asked before a message is sent to one. A message for an exchange that does not exist closes
//! the channel, and with it the fate of all others on it is unknown.

use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use posthaste::Outcome;
use tokio::time::{Instant, timeout_at};

use super::connection::{AmqpConnection, NoChannel, broker_text, connection_error, lock};
use super::message::PreparedMessage;
use crate::unsendable::Unsendable;

/// Exchanges that we remember. Where a template makes more of them, it is asked again.
const MAX_KNOWN_EXCHANGES: usize = 1_000;

impl AmqpConnection {
    /// Takes out messages whose properties do not fit into one frame: the broker would close the connection.
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
            let reason =
                format!("the headers have about {} bytes, and RabbitMQ takes {most}", message.header_bytes);
            outcomes[message.at] = Some(Unsendable::new(reason).into());
        }
        fitting
    }

    /// Takes out messages for exchanges that are not there.
    pub(super) async fn refuse_missing_exchanges(
        &self,
        messages: &mut Vec<PreparedMessage>,
        outcomes: &mut [Option<Outcome>],
        deadline: Instant,
    ) {
        let mut asked: Vec<ShortString> = Vec::new();
        for message in messages.iter() {
            if !asked.contains(&message.exchange) && !self.is_known(&message.exchange) {
                asked.push(message.exchange.clone());
            }
        }
        for exchange in asked {
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

    /// After a channel was closed, nothing is sure.
    pub(super) fn forget_exchanges(&self) {
        lock(&self.known_exchanges).clear();
    }

    /// Whether the exchange was there when we looked. The default exchange always is.
    fn is_known(&self, exchange: &ShortString) -> bool {
        exchange.as_str().is_empty() || lock(&self.known_exchanges).contains(exchange)
    }

    /// Asks whether the exchange exists, on a channel of its own, because the answer "no" closes it.
    pub(super) async fn check_exchange(
        &self,
        exchange: &ShortString,
        deadline: Instant,
    ) -> Result<(), ExchangeError> {
        let channel = self.plain_channel(deadline).await?;
        let asked = Instant::now();
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let there =
            channel.exchange_declare(exchange.clone(), ExchangeKind::Topic, passive, FieldTable::default());
        match timeout_at(deadline, there).await {
            Ok(Ok(())) => {
                self.remember_exchange(exchange);
                Ok(())
            }
            Ok(Err(error)) if error.is_amqp_soft_error() => Err(ExchangeError::Refused(broker_text(&error))),
            Ok(Err(error)) => Err(NoChannel::NoConnection(connection_error(&error)).into()),
            Err(_) => Err(self.no_answer(asked).into()),
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

/// Why nothing can be sent to an exchange.
pub(super) enum ExchangeError {
    /// In the broker's words.
    Refused(String),
    NoChannel(NoChannel),
}

impl ExchangeError {
    /// For operators who asked whether the broker is there.
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
