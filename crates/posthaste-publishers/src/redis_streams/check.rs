//! `Publisher` for Redis Streams: `check` logs in and sends a PING.

use async_trait::async_trait;
use posthaste::Outcome;
use posthaste::admin::Finding;
use redis::Pipeline;
use tokio::time::{Instant, timeout_at};

use super::{RedisStreamPublisher, outcome, timed_out};
use crate::check_error::{CheckError, UNREACHABLE_ADVICE};
use crate::publisher::Publisher;

#[async_trait]
impl Publisher for RedisStreamPublisher {
    async fn check(&self) -> Result<(), CheckError> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let mut outcome = self.ping(deadline).await?;
        if matches!(&outcome, Outcome::Unreachable(why) if why.connection_failed) {
            // An idle connection may have broken, which says nothing about the server. The second try opens a new
            // one.
            outcome = self.ping(deadline).await?;
        }
        match outcome {
            Outcome::Unreachable(why) => Err(CheckError::new(format!("{}: {UNREACHABLE_ADVICE}", why.error))),
            // Any other reply will do: a user who may not PING gets an error from a server that is reachable.
            _ => Ok(()),
        }
    }

    async fn diagnose(&self) -> Vec<Finding> {
        match self.check().await {
            Ok(()) => self.diagnose_settings().await,
            Err(why) => vec![why.into()],
        }
    }
}

impl RedisStreamPublisher {
    async fn ping(&self, deadline: Instant) -> Result<Outcome, CheckError> {
        let connect = timeout_at(deadline, self.shared_connection.get(|_| true, self.connect())).await;
        let connect = connect.unwrap_or_else(|_| Err(outcome::no_connection(&timed_out(), &self.settings)));
        let connection = connect.map_err(CheckError::new)?;
        let mut ping = Pipeline::new();
        ping.cmd("PING");
        Ok(match self.query(&connection, &ping, 1, deadline).await {
            Ok(replies) => replies.first().map_or(Outcome::done(), |pong| outcome::of_reply(pong, "")),
            Err(error) => outcome::of_lost_reply(error.as_ref(), &self.settings),
        })
    }
}
