//! `Publisher` for NATS: `check` connects and requests the JetStream status; `diagnose` adds the stream.

use async_trait::async_trait;
use posthaste::admin::Finding;
use tokio::time::Instant;

use super::NatsPublisher;
use crate::publisher::Publisher;
use crate::unreached::Unreached;

#[async_trait]
impl Publisher for NatsPublisher {
    async fn check(&self) -> Result<(), Unreached> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = self.connection(deadline).await.map_err(Unreached::new)?;
        let checked = connection.check(deadline).await;
        if checked.is_err() {
            self.shared_connection.give_up(&connection);
        }
        checked.map_err(Unreached::new)
    }

    async fn diagnose(&self) -> Vec<Finding> {
        if let Err(why) = self.check().await {
            return vec![why.into()];
        }
        let deadline = Instant::now() + self.settings.common.timeout;
        match self.connection(deadline).await {
            Ok(connection) => connection.diagnose(&self.settings, deadline).await,
            Err(why) => vec![Unreached::new(why).into()],
        }
    }
}
