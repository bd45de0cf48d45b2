//! Diagnosis of the queues behind a publisher: that there are any, and that a node failure does not lose their
//! messages.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste::admin::Finding;
use tokio::time::{Instant, timeout_at};

use super::AmqpPublisher;
use super::connection::{AmqpConnection, broker_text};
use super::management::Queue;
use super::message::short_string;
use crate::operator_text::one_line;
use crate::template::Template;

/// How many queue names one finding lists; the rest are counted.
const MAX_NAMES_LISTED: usize = 5;

impl AmqpPublisher {
    /// AMQP describes only queues whose names are known. The queues that are bound to an exchange can be listed
    /// only through the management plugin.
    pub(super) async fn diagnose_queues(&self) -> Vec<Finding> {
        let settings = &*self.settings;
        let queues = match (&settings.exchange, &settings.management) {
            (None, _) => match settings.routing_key.as_text() {
                Some(queue) => self.queue_named(queue).await,
                None => Err(format!("each event names its queue by {}", settings.routing_key)),
            },
            (Some(exchange), Some(management)) => match exchange.as_text() {
                Some(exchange) => management.queues(&settings.vhost, exchange).await,
                None => Err(format!("each event names its exchange by {exchange}")),
            },
            (Some(_), None) => Err("AMQP does not list the queues that are bound to an exchange".to_owned()),
        };
        match queues {
            Ok(queues) if queues.is_empty() => vec![self.no_queue()],
            Ok(queues) => findings(&queues),
            Err(why) => vec![unknown(&why)],
        }
    }

    async fn queue_named(&self, name: &str) -> Result<Vec<Queue>, String> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let queue = short_string("queue", name).map_err(|unsendable| unsendable.to_string())?;
        let connection = self.connector.get(deadline).await?;
        let queue = connection.queue(&queue, deadline).await?;
        Ok(queue.into_iter().collect())
    }

    fn no_queue(&self) -> Finding {
        let place = match self.settings.exchange.as_ref().map(Template::to_string) {
            Some(exchange) => format!("no queue is bound to the exchange {exchange}"),
            None => format!("there is no queue {}", self.settings.routing_key),
        };
        Finding::problem(
            "rabbitmq-no-queue",
            one_line(format!("{place}, so that every event for it fails")),
            "create the queue and bind it: RabbitMQ returns messages that no queue takes",
        )
    }
}

impl AmqpConnection {
    /// Returns the queue of this name, or `None` if it does not exist.
    async fn queue(&self, name: &ShortString, deadline: Instant) -> Result<Option<Queue>, String> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        if let Some(refusal) = self.declare(name, passive, FieldTable::default(), deadline).await?
            && refusal.contains("NOT_FOUND")
        {
            return Ok(None);
        }
        // AMQP has no request that describes a queue. This declaration has arguments that match no queue, so the
        // broker refuses it and names the first difference, which reveals the queue's properties. It cannot create
        // a queue either: if the queue was deleted in the meantime, the broker refuses the invalid leader locator.
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        arguments.insert("x-queue-leader-locator".into(), AMQPValue::LongString("none: only asked".into()));
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let refusal = self.declare(name, durable, arguments, deadline).await?;
        let refusal = refusal.ok_or("the broker did not describe it")?;
        let (durable, kind) =
            parse_difference(&refusal).ok_or_else(|| format!("the broker replied: {refusal}"))?;
        Ok(Some(Queue { name: name.to_string(), durable, kind: kind.to_owned() }))
    }

    /// Declares a queue and returns the broker's refusal, if any. Uses a channel of its own, because a refusal
    /// closes it.
    async fn declare(
        &self,
        name: &ShortString,
        options: QueueDeclareOptions,
        arguments: FieldTable,
        deadline: Instant,
    ) -> Result<Option<String>, String> {
        let channel = self.plain_channel(deadline).await.map_err(|none| none.why())?;
        match timeout_at(deadline, channel.queue_declare(name.clone(), options, arguments)).await {
            Ok(Ok(_)) => Ok(None),
            Ok(Err(error)) if error.is_amqp_soft_error() => Ok(Some(broker_text(&error))),
            Ok(Err(error)) => Err(broker_text(&error)),
            Err(_) => Err("the broker did not reply in time".to_owned()),
        }
    }
}

/// Parses whether a queue is durable, and its kind, from the difference that the broker names. It names one only: the
/// leader locator if durability and type agree with the declaration, in which case the queue is a durable quorum queue.
fn parse_difference(refusal: &str) -> Option<(bool, &'static str)> {
    let (_, rest) = refusal.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once('\'')?;
    let current = rest.rsplit_once("current is ").map_or("", |(_, current)| current);
    match argument {
        "durable" => Some((false, "classic")),
        "x-queue-type" if current.contains("'stream'") => Some((true, "stream")),
        "x-queue-type" => Some((true, "classic")),
        "x-queue-leader-locator" => Some((true, "quorum")),
        _ => None,
    }
}

fn findings(queues: &[Queue]) -> Vec<Finding> {
    let (durable, transient): (Vec<&Queue>, Vec<&Queue>) = queues.iter().partition(|queue| queue.durable);
    let classic: Vec<&Queue> = durable.into_iter().filter(|queue| queue.kind == "classic").collect();
    let warn = |code, kind, queues: Vec<&Queue>, what, advice: &'static str| {
        let names = list_names(kind, &queues);
        (!queues.is_empty()).then(|| Finding::warning(code, format!("{names}: {what}"), advice))
    };
    let transient = warn(
        "rabbitmq-transient-queue",
        "transient",
        transient,
        "confirmed messages are lost when its node restarts",
        "recreate it as a durable quorum queue",
    );
    let classic = warn(
        "rabbitmq-classic-queue",
        "classic",
        classic,
        "it is on one node, and confirmed messages are lost with that node's disk",
        "recreate it with x-queue-type=quorum, which confirms when most nodes have the message",
    );
    transient.into_iter().chain(classic).collect()
}

fn list_names(kind: &str, queues: &[&Queue]) -> String {
    let names: Vec<String> =
        queues.iter().take(MAX_NAMES_LISTED).map(|queue| one_line(&queue.name)).collect();
    let more = queues.len().saturating_sub(MAX_NAMES_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let queue = if queues.len() == 1 { "queue" } else { "queues" };
    format!("{kind} {queue} {}{more}", names.join(", "))
}

fn unknown(why: &str) -> Finding {
    Finding::note(
        "rabbitmq-queues-unknown",
        one_line(format!("whether the queues keep confirmed messages is unknown: {why}")),
        "check that they are durable quorum queues (rabbitmqctl list_queues name type durable), or name the management \
         plugin in the URL: management=http://host:15672",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_reveals_the_kind_of_a_queue() {
        let broker_text = |argument: &str, current: &str| {
            format!(
                "PRECONDITION_FAILED - inequivalent arg '{argument}' for queue 'q' in vhost '/': received 'x' but current is {current}"
            )
        };
        for (argument, current, kind) in [
            ("x-queue-type", "none", Some((true, "classic"))),
            ("x-queue-type", "'classic'", Some((true, "classic"))),
            ("x-queue-type", "'stream'", Some((true, "stream"))),
            ("x-queue-leader-locator", "none", Some((true, "quorum"))),
            ("durable", "'false'", Some((false, "classic"))),
            ("x-message-ttl", "the value '1000' of type 'long'", None),
        ] {
            assert_eq!(parse_difference(&broker_text(argument, current)), kind, "{argument} {current}");
        }
        assert_eq!(parse_difference("ACCESS_REFUSED - configure access to queue 'q' refused"), None);
    }

    #[test]
    fn finding_names_five_queues_and_counts_the_rest() {
        let queue = |n: usize| Queue { name: format!("q{n}"), durable: true, kind: "classic".to_owned() };
        let queues: Vec<Queue> = (0..7).map(queue).collect();
        let what = findings(&queues).remove(0).what;
        assert!(what.starts_with("classic queues q0, q1, q2, q3, q4 and 2 more: "), "{what}");
        assert!(findings(&[Queue { kind: "quorum".to_owned(), ..queue(0) }]).is_empty());
    }
}
