//! Outcomes of events, from their delivery reports.

use std::time::Duration;

use posthaste::Outcome;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::producer::{BROKERS_DOWN_ADVICE, ProducerHealth};
use crate::check_error::CheckError;
use crate::operator_text::one_line;

/// Facts that the text of an outcome may include.
pub(super) struct ReportContext<'a> {
    pub(super) topic: &'a str,
    pub(super) bytes: usize,
    pub(super) timeout: Duration,
    pub(super) health: &'a ProducerHealth,
}

/// Returns the outcome of an event that was not delivered. `code` is `None` if there was no report.
pub(super) fn of_report(code: Option<Code>, context: &ReportContext<'_>) -> Outcome {
    let Some(code) = code else { return no_acknowledgement(context) };
    let topic = context.topic;
    match code {
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Outcome::Dead(one_line(format!(
            "too large: topic {topic} refuses messages of {} bytes: raise its max.message.bytes",
            context.bytes
        ))),
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
            retry(format!("topic {topic} does not exist: create it"))
        }
        Code::TopicAuthorizationFailed => {
            retry(format!("writing to topic {topic} is not allowed: grant WRITE on it"))
        }
        Code::InvalidTopic => retry(format!("the brokers refuse {topic} as the name of a topic")),
        Code::InvalidRecord => retry(format!(
            "topic {topic} refuses the message as invalid: if the topic is compacted the event needs an aggregate id"
        )),
        Code::ThrottlingQuotaExceeded => {
            Outcome::busy(format!("Kafka: a quota is used up: wait, or raise it for this user: {code}"))
        }
        // For a byte quota, brokers delay their replies and send no error, so it shows up as a missing
        // acknowledgement. So does a queue of librdkafka that stays full, because it is full only while brokers
        // acknowledge nothing.
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

/// Returns the error of a check: why the brokers or the topic cannot be used. `code` is `None` if no broker
/// replied.
pub(super) fn check_error(code: Option<Code>, context: &ReportContext<'_>) -> CheckError {
    // Negative codes are librdkafka's own errors: no broker has replied.
    let said = code.filter(|code| *code as i32 > 0).map(|code| of_report(Some(code), context));
    CheckError::new(match said {
        Some(Outcome::Failed(error)) => error.to_string(),
        Some(Outcome::Unreachable(why)) => why.error.to_string(),
        Some(Outcome::Busy(busy)) => busy.error.to_string(),
        _ => match context.health.no_connection() {
            Some(why) => format!("Kafka: {why}"),
            None => format!("Kafka: no broker replied within {:?}: {BROKERS_DOWN_ADVICE}", context.timeout),
        },
    })
}

/// Whether the error may be due to another message of the same request: brokers refuse a request as a whole.
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

/// The brokers refused the event, which counts as an attempt.
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
            "Kafka: topic {} did not acknowledge within {:?}: check that its partitions have leaders and enough replicas in sync",
            context.topic, context.timeout
        )),
    }
}

/// Whether the error is due to the state of brokers and connections and not to the event: all errors of librdkafka
/// itself, and the temporary errors of brokers.
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
