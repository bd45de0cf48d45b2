//! `Publisher` for AMQP: `check` logs in, opens a channel and looks up the exchange; `diagnose` adds the queues.

use async_trait::async_trait;
use posthaste::admin::Finding;
use tokio::time::Instant;

use super::AmqpPublisher;
use super::message::short_string;
use crate::check_error::CheckError;
use crate::publisher::Publisher;
use crate::template::Template;

#[async_trait]
impl Publisher for AmqpPublisher {
    async fn check(&self) -> Result<(), CheckError> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = self.connector.get(deadline).await.map_err(CheckError::new)?;
        connection.warm_up(deadline).await.map_err(|none| CheckError::new(none.why()))?;
        let Some(exchange) = self.settings.exchange.as_ref().and_then(Template::as_text) else {
            return Ok(());
        };
        let exchange = short_string("exchange", exchange)
            .map_err(|unsendable| CheckError::new(unsendable.to_string()))?;
        connection.check_exchange(&exchange, deadline).await.map_err(|error| CheckError::new(error.why()))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.check().await {
            Ok(()) => self.diagnose_queues().await,
            Err(why) => vec![why.into()],
        }
    }
}
