//! `Publisher` for NATS: `check` connects and requests the JetStream status; `diagnose` adds the stream.

use async_trait::async_trait;
use posthaste::admin::Finding;
use tokio::time::Instant;

use super::NatsPublisher;
use crate::check_error::CheckError;
use crate::publisher::Publisher;

#[async_trait]
impl Publisher for NatsPublisher {
    async fn check(&self) -> Result<(), CheckError> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = self.connection(deadline).await.map_err(CheckError::new)?;
        let checked = connection.check(deadline).await;
        if checked.is_err() {
            self.shared_connection.give_up(&connection);
        }
        checked.map_err(CheckError::new)
    }

    async fn diagnose(&self) -> Vec<Finding> {
        if let Err(why) = self.check().await {
            return vec![why.into()];
        }
        let deadline = Instant::now() + self.settings.common.timeout;
        match self.connection(deadline).await {
            Ok(connection) => connection.diagnose(&self.settings, deadline).await,
            Err(why) => vec![CheckError::new(why).into()],
        }
    }
}
