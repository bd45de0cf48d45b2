//! The trait of every publisher: a destination that can be checked and diagnosed before events are sent to it.

use std::fmt;

use async_trait::async_trait;
use posthaste::Destination;
use posthaste::admin::Finding;

use crate::unreached::Unreached;

/// A [`Destination`] that can be asked whether the other side is reachable, as every publisher of this crate can.
///
/// # Contract
///
/// - `check` is about this moment: an event that is delivered after `Ok` may find the other side down, and one
///   that is delivered after `Err` may arrive.
/// - It sends no event, and creates nothing on the other side.
/// - It returns within the publisher's own timeout.
/// - It may be called at any time, any number of times, and concurrently with itself and with `deliver`.
/// - Where a publisher keeps a connection, `check` makes it and `deliver` uses it, so that the first delivery need
///   not wait for it.
/// - `diagnose` keeps to the same rules and asks more; it may take several times as long as a check. What the other
///   side does not reveal, for want of a right for example, is no finding, or a note that says where to look.
///
/// ```
/// # #[cfg(feature = "lines")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use posthaste::Destination;
///
/// let publisher = posthaste_publishers::publisher("stdout:")?;
/// if let Err(why) = publisher.check().await {
///     eprintln!("events will wait: {why}");
/// }
/// let destination: Arc<dyn Destination> = publisher;
/// # let _ = destination;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "lines"))]
/// # fn main() {}
/// ```
#[async_trait]
pub trait Publisher: Destination {
    /// Returns whether the other side lets us in now, or else why not.
    async fn check(&self) -> Result<(), Unreached>;

    /// Returns what looks wrong with the other side, and what to do about it: that it is not reachable, or that it
    /// may lose what it has acknowledged.
    async fn diagnose(&self) -> Vec<Finding>;
}

/// As it is with destinations: no settings, each may be a secret.
impl fmt::Debug for dyn Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher")
    }
}
