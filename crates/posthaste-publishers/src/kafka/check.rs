//! `Publisher` for Kafka: `check` fetches metadata of the brokers, and of the topic if fetching cannot create it.

use async_trait::async_trait;
use posthaste::admin::Finding;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::outcome::{self, ReportContext};
use super::{Inner, KafkaPublisher};
use crate::check_error::CheckError;
use crate::publisher::Publisher;

#[async_trait]
impl Publisher for KafkaPublisher {
    async fn check(&self) -> Result<(), CheckError> {
        let producer = self.inner.producer.get().map_err(CheckError::new)?;
        let topic = self.inner.topic_to_check();
        let code = producer.probe(topic, self.inner.common.timeout).await;
        if code == Some(Code::NoError) {
            return Ok(());
        }
        let context = ReportContext {
            topic: topic.unwrap_or_default(),
            bytes: 0,
            timeout: self.inner.common.timeout,
            health: &producer.health(),
        };
        Err(outcome::check_error(code, &context))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.check().await {
            Ok(()) => self.inner.diagnose_topic().await,
            Err(why) => vec![why.into()],
        }
    }
}

impl Inner {
    /// The topic to look up: that of events without a topic of their own. `None` if it depends on the event, or if
    /// brokers may create it on first use.
    fn topic_to_check(&self) -> Option<&str> {
        self.topic.as_text().filter(|_| !self.may_create_topics)
    }
}
