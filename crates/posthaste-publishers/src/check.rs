//! Whether the other side is there, and whether it keeps what it acknowledges: asked before anything is sent to it.

use std::fmt;

use async_trait::async_trait;
use posthaste::Destination;
use posthaste::admin::Finding;

use crate::refused::one_line;

/// What to do about a server that does not answer at all.
pub(crate) const NOBODY: &str = "check host, port and TLS, and that it runs";

/// A destination that can be asked whether it is there, as every publisher of this crate can.
///
/// # Contract
///
/// `check` is about this moment: an event that is delivered afterwards may find nobody, and one after an error
/// may arrive. It sends no event and makes nothing on the other side. It ends within the publisher's own
/// timeout, and may be called at any time, any number of times and beside `deliver`. Where a publisher keeps a
/// connection, it is made here and used by `deliver`, so that the first delivery need not wait for it.
///
/// `diagnose` keeps to the same rules, and asks more. What the other side does not tell, for want of a right for
/// example, is no finding, or a note that says where to look.
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
    /// Whether the other side lets us in now, or else why not.
    async fn check(&self) -> Result<(), Unreached>;

    /// What looks wrong with the other side, and what to do about it: that it is not there, or that it may lose
    /// what it has acknowledged. It may take several times as long as a check.
    async fn diagnose(&self) -> Vec<Finding>;
}

/// As it is with destinations: no settings, each may be a secret.
impl fmt::Debug for dyn Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher")
    }
}

/// Why the other side is out of reach, in one line for operators, which says what to do and tells no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreached(String);

impl Unreached {
    /// For this reason, of which one line is kept. It may hold hosts and names, but no password.
    pub fn new(why: impl AsRef<str>) -> Self {
        Self(one_line(why))
    }
}

impl From<Unreached> for Finding {
    fn from(Unreached(why): Unreached) -> Self {
        Self::problem(
            "destination-unreachable",
            why,
            "mend that first: nothing else can be said of it until it answers",
        )
    }
}
