//! The notifier: a signal that there may be rows to claim.

use std::sync::Arc;

use tokio::sync::Notify;

/// A signal within one process that there may be rows to claim. A *wake-up* is the hint by which a store learns of
/// commits of other processes; it ends in a notifier, see [`Store::wake`](crate::Store::wake).
#[derive(Clone, Debug, Default)]
pub struct Notifier(Arc<Notify>);

impl Notifier {
    /// A new notifier.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the one task that waits. Notifications are kept as one until a task waits.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Waits for the next notification.
    pub async fn notified(&self) {
        self.0.notified().await;
    }
}
