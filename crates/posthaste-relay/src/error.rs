//! Why a relay cannot start, or ended.

use std::net::SocketAddr;

use posthaste_publishers::PublisherError;
use posthaste_stores::OpenStoreError;
use tokio::task::JoinError;

/// A relay cannot start, ended, or cannot take over a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// A destination has wrong settings.
    #[error(transparent)]
    Publisher(#[from] PublisherError),

    /// The engine refuses its settings.
    #[error(transparent)]
    Config(#[from] posthaste::ConfigError),

    /// An engine cannot start.
    #[error("the outbox {outbox} cannot start")]
    Start {
        /// Which outbox.
        outbox: String,
        /// What is wrong with its settings.
        source: posthaste::StartError,
    },

    /// A store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenStoreError),

    /// Destinations cannot be reached.
    #[error("{0}")]
    Unreachable(String),

    /// The admin listener cannot listen.
    #[error("cannot listen on {address}: choose another address with --listen or admin.listen, or \"off\"")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },

    /// Settings that cannot change while the relay runs.
    #[error("these cannot change while the relay runs, restart it: {0}")]
    Fixed(String),

    /// The configuration was not read.
    #[error("the configuration was not read")]
    NotRead(#[source] JoinError),

    /// A defect of Posthaste.
    #[error("an outbox could not start")]
    Panicked(#[source] JoinError),
}
