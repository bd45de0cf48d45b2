//! Limits warnings that could be logged for every event to one per second. An engine has one limit, which all of its
//! warnings of this kind share.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::mutex::lock;

#[derive(Debug, Default)]
pub(crate) struct WarnLimit(Mutex<Option<Instant>>);

impl WarnLimit {
    pub(crate) fn allows(&self, now: Instant) -> bool {
        let mut last = lock(&self.0);
        let allowed = last.is_none_or(|last| now.duration_since(last) >= Duration::from_secs(1));
        if allowed {
            *last = Some(now);
        }
        allowed
    }
}
