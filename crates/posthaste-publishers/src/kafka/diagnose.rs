//! Diagnosis of the topic's durability: its replicas, and how many must have an event before it is acknowledged.

use posthaste::admin::Finding;

use super::Inner;

impl Inner {
    /// Returns nothing if the topic depends on the event.
    pub(super) async fn diagnose_topic(&self) -> Vec<Finding> {
        let (Some(topic), Ok(producer)) = (self.topic.as_text(), self.producer.get()) else {
            return Vec::new();
        };
        let replicas = producer.replicas(topic, self.common.timeout).await;
        let in_sync = match replicas {
            Some(2..) => self.producer.min_in_sync(topic, self.common.timeout).await,
            _ => None,
        };
        finding(topic, replicas, in_sync).into_iter().collect()
    }
}

/// `in_sync` is `min.insync.replicas`; `None` if this user may not read it.
fn finding(topic: &str, replicas: Option<usize>, in_sync: Option<usize>) -> Option<Finding> {
    match (replicas?, in_sync) {
        (0, _) => Some(Finding::warning(
            "kafka-no-topic",
            format!("the topic {topic} does not exist, or this user may not see it"),
            "create it with replication.factor=3 and min.insync.replicas=2: a topic that brokers create automatically has \
             their defaults, and brokers without automatic creation refuse the events",
        )),
        (1, _) => Some(Finding::warning(
            "kafka-one-replica",
            format!("the topic {topic} has one replica: acknowledged events are lost with its broker's disk"),
            "give it three with kafka-reassign-partitions.sh, or recreate it with replication.factor=3 and \
             min.insync.replicas=2",
        )),
        (replicas, Some(..2)) => Some(Finding::warning(
            "kafka-min-insync",
            format!(
                "the topic {topic} has {replicas} replicas, but its min.insync.replicas is 1: while the other replicas lag, \
                 an event that only one broker has counts as delivered"
            ),
            format!("kafka-configs.sh --alter --topic {topic} --add-config min.insync.replicas=2"),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_depends_on_replicas_and_min_insync_replicas() {
        let code = |replicas, in_sync| finding("orders", replicas, in_sync).map(|finding| finding.code);
        assert_eq!(code(Some(1), Some(1)), Some("kafka-one-replica"));
        assert_eq!(code(Some(3), Some(1)), Some("kafka-min-insync"));
        assert_eq!(code(Some(3), Some(2)), None);
        assert_eq!(code(Some(3), None), None, "min.insync.replicas is unknown");
        assert_eq!(code(Some(0), None), Some("kafka-no-topic"));
        assert_eq!(code(None, None), None);
    }
}
