//! The trait `Publisher`: a destination that can be checked and diagnosed without sending an event.

use std::fmt;

use async_trait::async_trait;
use posthaste::Destination;
use posthaste::admin::Finding;

use crate::check_error::CheckError;

/// A [`Destination`] that can be checked and diagnosed. All publishers of this crate implement it.
///
/// # Contract
///
/// - `check` describes the current moment: an event that is delivered after `Ok` may still find the destination
///   down, and one that is delivered after `Err` may arrive.
/// - It sends no event and creates nothing at the destination.
/// - It returns within the publisher's own timeout.
/// - It may be called at any time, any number of times, and concurrently with itself and with `deliver`.
/// - If a publisher keeps a connection, `check` opens it and `deliver` reuses it, so that the first delivery does
///   not wait for it.
/// - `diagnose` follows the same rules, but may take several times as long. A fact that the destination does not
///   reveal, for example because the user lacks a permission, leads to no finding, or to a note that says where to
///   look.
///
/// ```
/// # #[cfg(feature = "lines")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), posthaste::BoxError> {
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a publisher",
    label = "this type does not implement `Publisher`",
    note = "build a publisher from a URL with `posthaste_publishers::publisher`, or with a builder of this crate",
    note = "if events only have to be delivered, a `posthaste::Destination` is enough"
)]
pub trait Publisher: Destination {
    /// Checks whether the destination is reachable and accepts the login. Returns the reason if not.
    async fn check(&self) -> Result<(), CheckError>;

    /// Returns problems of the destination and how to fix them: that it is not reachable, or that it may lose
    /// events that it has acknowledged. An empty list means that nothing was found.
    async fn diagnose(&self) -> Vec<Finding>;
}

/// Shows no settings, as for `dyn Destination`: each may be a secret.
impl fmt::Debug for dyn Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher")
    }
}
