//! Whether the topic is on more than one broker, and whether an acknowledgement says so.

use posthaste::admin::Finding;

use super::Inner;

impl Inner {
    /// Nothing is known of topics that each event names.
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

/// `in_sync` is `min.insync.replicas`, where this user may know it.
fn finding(topic: &str, replicas: Option<usize>, in_sync: Option<usize>) -> Option<Finding> {
    match (replicas?, in_sync) {
        (0, _) => Some(Finding::warning(
            "kafka-no-topic",
            format!("there is no topic {topic}, or this user may not see it"),
            "create it with replication.factor=3 and min.insync.replicas=2: one that brokers make by themselves has \
             their defaults, and those that make none refuse the events",
        )),
        (1, _) => Some(Finding::warning(
            "kafka-one-replica",
            format!("the topic {topic} has one replica: what it acknowledged is lost with its broker's disk"),
            "give it three with kafka-reassign-partitions.sh, or create it anew with replication.factor=3 and \
             min.insync.replicas=2",
        )),
        (replicas, Some(..2)) => Some(Finding::warning(
            "kafka-min-insync",
            format!(
                "the topic {topic} has {replicas} replicas, but its min.insync.replicas is 1: while the others lag, an \
                 event counts as delivered that one broker has"
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
    fn topic_is_as_safe_as_its_replicas_and_their_least_number() {
        let code = |replicas, in_sync| finding("orders", replicas, in_sync).map(|finding| finding.code);
        assert_eq!(code(Some(1), Some(1)), Some("kafka-one-replica"));
        assert_eq!(code(Some(3), Some(1)), Some("kafka-min-insync"));
        assert_eq!(code(Some(3), Some(2)), None);
        assert_eq!(code(Some(3), None), None, "nobody told");
        assert_eq!(code(Some(0), None), Some("kafka-no-topic"));
        assert_eq!(code(None, None), None);
    }
}
