//! `Publisher` for AMQP: `check` logs in, opens a channel and looks up the exchange; `diagnose` adds the queues.

use async_trait::async_trait;
use posthaste::admin::Finding;
use tokio::time::Instant;

use super::AmqpPublisher;
use super::message::short_string;
use crate::publisher::Publisher;
use crate::template::Template;
use crate::unreached::Unreached;

#[async_trait]
impl Publisher for AmqpPublisher {
    async fn check(&self) -> Result<(), Unreached> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = self.connector.get(deadline).await.map_err(Unreached::new)?;
        connection.warm_up(deadline).await.map_err(|none| Unreached::new(none.why()))?;
        let Some(exchange) = self.settings.exchange.as_ref().and_then(Template::as_text) else {
            return Ok(());
        };
        let exchange = short_string("exchange", exchange)
            .map_err(|unsendable| Unreached::new(unsendable.to_string()))?;
        connection.check_exchange(&exchange, deadline).await.map_err(|error| Unreached::new(error.why()))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.check().await {
            Ok(()) => self.diagnose_queues().await,
            Err(why) => vec![why.into()],
        }
    }
}
