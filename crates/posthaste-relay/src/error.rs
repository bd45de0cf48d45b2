//! Errors that keep a relay from starting, or end it.

use std::net::SocketAddr;

use posthaste_publishers::PublisherError;
use posthaste_stores::OpenStoreError;
use tokio::task::JoinError;

/// A relay cannot start, has ended, or cannot apply a new configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// A destination has invalid settings.
    #[error(transparent)]
    Publisher(#[from] PublisherError),

    /// The engine refuses its settings.
    #[error(transparent)]
    Config(#[from] posthaste::ConfigError),

    /// An engine cannot start.
    #[error("the outbox {outbox} cannot start")]
    Start {
        /// The name of the outbox.
        outbox: String,
        /// The cause.
        source: posthaste::StartError,
    },

    /// A store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenStoreError),

    /// One or more destinations cannot be reached, each with the reason. Only with
    /// [`fail_fast`](crate::Relay::fail_fast).
    #[error("{0}")]
    Unreachable(String),

    /// The admin listener cannot listen.
    #[error("cannot listen on {address}: choose another address with --listen or admin.listen, or \"off\"")]
    Listen {
        /// The address from the configuration.
        address: SocketAddr,
        /// The cause, such as a port that is taken.
        source: std::io::Error,
    },

    /// The new configuration changes settings that need a restart; the text names them.
    #[error("these cannot change while the relay runs, restart it: {0}")]
    Fixed(String),

    /// The task that reads the configuration failed: a defect of Posthaste.
    #[error("the configuration was not read")]
    NotRead(#[source] JoinError),

    /// The task that starts an outbox panicked: a defect of Posthaste.
    #[error("an outbox could not start")]
    Panicked(#[source] JoinError),
}
