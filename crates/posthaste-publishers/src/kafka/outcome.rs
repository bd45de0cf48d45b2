//! The outcome of an event from its delivery report.

use std::time::Duration;

use posthaste::Outcome;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::producer::{BROKERS_DOWN_ADVICE, ProducerHealth};
use crate::one_line::one_line;
use crate::unreached::Unreached;

/// What the text of an outcome may have to name.
pub(super) struct ReportContext<'a> {
    pub(super) topic: &'a str,
    pub(super) bytes: usize,
    pub(super) timeout: Duration,
    pub(super) health: &'a ProducerHealth,
}

/// The outcome of an event that was not taken. No code means that there was no report.
pub(super) fn of_report(code: Option<Code>, context: &ReportContext<'_>) -> Outcome {
    let Some(code) = code else { return no_acknowledgement(context) };
    let topic = context.topic;
    match code {
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Outcome::Dead(one_line(format!(
            "too large: topic {topic} takes no message of {} bytes: raise its max.message.bytes",
            context.bytes
        ))),
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
            retry(format!("topic {topic} does not exist: create it"))
        }
        Code::TopicAuthorizationFailed => {
            retry(format!("writing to topic {topic} is not allowed: grant WRITE on it"))
        }
        Code::InvalidTopic => retry(format!("the brokers take no topic of the name {topic}")),
        Code::InvalidRecord => retry(format!(
            "topic {topic} refuses the message as invalid: if the topic is compacted the event needs an aggregate id"
        )),
        Code::ThrottlingQuotaExceeded => {
            Outcome::busy(format!("Kafka: a quota is used up: wait, or raise it for this user: {code}"))
        }
        // A quota of bytes makes brokers answer late and never no, so it is seen as no acknowledgement. So is our own queue
        // when it stays full: the brokers acknowledge nothing.
        Code::PurgeQueue
        | Code::PurgeInflight
        | Code::MessageTimedOut
        | Code::OperationTimedOut
        | Code::QueueFull => no_acknowledgement(context),
        Code::ClusterAuthorizationFailed => Outcome::no_connection(
            "Kafka: an idempotent producer is not allowed: grant WRITE, or IDEMPOTENT_WRITE on the cluster",
        ),
        Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL | Code::Resolve | Code::Fatal => {
            no_connection(&context.health.no_connection().unwrap_or_else(|| code.to_string()))
        }
        _ if is_transient(code) => match context.health.no_connection() {
            Some(why) => no_connection(&why),
            None => Outcome::no_answer(format!("Kafka: topic {topic} cannot be written to now: {code}")),
        },
        _ => retry(format!("topic {topic} refuses the message: {code}")),
    }
}

/// Why the brokers, or the topic, cannot be used. No code means that nobody answered.
pub(super) fn unreached(code: Option<Code>, context: &ReportContext<'_>) -> Unreached {
    // A negative code is the library's own: no broker has said anything.
    let said = code.filter(|code| *code as i32 > 0).map(|code| of_report(Some(code), context));
    Unreached::new(match said {
        Some(Outcome::Failed(error)) => error.to_string(),
        Some(Outcome::Unreachable(why)) => why.error.to_string(),
        Some(Outcome::Busy(busy)) => busy.error.to_string(),
        _ => match context.health.no_connection() {
            Some(why) => format!("Kafka: {why}"),
            None => format!("Kafka: no broker answered within {:?}: {BROKERS_DOWN_ADVICE}", context.timeout),
        },
    })
}

/// Whether a broker may have meant another message of the same request: it refuses requests as a whole.
pub(super) fn may_be_about_another_message(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidRecord
            | Code::InvalidDifferentRecord
            | Code::InvalidTimestamp
    )
}

/// The brokers were asked and said no: an attempt.
fn retry(text: String) -> Outcome {
    Outcome::retry(format!("Kafka: {text}"))
}

fn no_connection(why: &str) -> Outcome {
    Outcome::no_connection(format!("Kafka: {why}"))
}

fn no_acknowledgement(context: &ReportContext<'_>) -> Outcome {
    match context.health.no_connection() {
        Some(why) => no_connection(&why),
        None => Outcome::no_answer(format!(
            "Kafka: topic {} did not acknowledge within {:?}: see whether its partitions have leaders and enough replicas in sync",
            context.topic, context.timeout
        )),
    }
}

/// Whether it is about the state of brokers and connections, and not about the event. All errors of the
/// library itself are; of the brokers' those that pass.
fn is_transient(code: Code) -> bool {
    (code as i32) < 0
        || matches!(
            code,
            Code::InvalidMessage
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition
                | Code::RequestTimedOut
                | Code::BrokerNotAvailable
                | Code::ReplicaNotAvailable
                | Code::NetworkException
                | Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::NotEnoughReplicas
                | Code::NotEnoughReplicasAfterAppend
                | Code::NotController
                | Code::OutOfOrderSequenceNumber
                | Code::DuplicateSequenceNumber
                | Code::InvalidProducerEpoch
                | Code::InvalidProducerIdMapping
                | Code::UnknownProducerId
                | Code::KafkaStorageError
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
                | Code::StaleBrokerEpoch
                | Code::ProducerFenced
        )
}
