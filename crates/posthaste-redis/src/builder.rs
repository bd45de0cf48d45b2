//! Builder of a store, and the checks at opening: server version and role, types of the keys, number of shards.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::{Client, ConnectionInfo, InfoDict, RedisError};

use crate::connection::RedisConnections;
use crate::error::open_error;
use crate::keys::{Keys, MAX_SHARDS, OutboxName, Shard};
use crate::{Inner, OpenError, RedisStore, repair};

/// The first release with all commands that the scripts use.
const MIN_SERVER_VERSION: &str = "6.2";

/// Version of the key layout and of the texts in the keys, stored once in `settings`: the rows have no version.
const LAYOUT_VERSION: u32 = 1;

/// Opens a [`RedisStore`].
#[derive(Clone)]
#[must_use = "call `connect`"]
pub struct RedisStoreBuilder {
    servers: Vec<ConnectionInfo>,
    is_cluster: bool,
    name: OutboxName,
    shards: Option<u16>,
    read_only: bool,
    repair_every: Duration,
    #[cfg(feature = "tls")]
    certificates: Option<redis::TlsCertificates>,
}

impl RedisStoreBuilder {
    pub(crate) fn server(url: &str) -> Result<Self, OpenError> {
        Self::new([url], false)
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn cluster<'u>(nodes: impl IntoIterator<Item = &'u str>) -> Result<Self, OpenError> {
        Self::new(nodes, true)
    }

    fn new<'u>(urls: impl IntoIterator<Item = &'u str>, is_cluster: bool) -> Result<Self, OpenError> {
        let servers: Result<Vec<_>, _> =
            urls.into_iter().map(redis::IntoConnectionInfo::into_connection_info).collect();
        let servers = servers.map_err(OpenError::Url)?;
        Ok(Self {
            servers,
            is_cluster,
            name: OutboxName::default(),
            shards: None,
            read_only: false,
            repair_every: repair::DEFAULT_INTERVAL,
            #[cfg(feature = "tls")]
            certificates: None,
        })
    }

    /// Name of the outbox, and first part of all its keys. Default: `outbox`. One server can hold several outboxes.
    pub fn name(mut self, name: OutboxName) -> Self {
        self.name = name;
        self
    }

    /// Number of shards, at most 256. Default: the number the outbox has; 1 for a new outbox. The number cannot be
    /// changed later: opening an outbox with a different one fails.
    ///
    /// Use 1 on a single server, and a few times the number of nodes on a cluster.
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = Some(shards.clamp(1, MAX_SHARDS));
        self
    }

    /// Also accepts a server that cannot be written to, such as a replica; calls that write fail there. For tools that
    /// only read. Default: opening such a server fails.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Interval at which a process that runs an engine checks one page of 100 rows for incomplete writes and repairs
    /// them. [`RedisStore::repair`] checks all rows. Default: 1 second; zero disables it.
    pub fn repair_every(mut self, interval: Duration) -> Self {
        self.repair_every = interval;
        self
    }

    /// PEM certificate of the authority that signed the server's certificate. Default: the public
    /// authorities of the crate `webpki-roots`.
    #[cfg(feature = "tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates = Some(redis::TlsCertificates { client_tls: None, root_cert: Some(pem.into()) });
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, refuses the user, is too old or read-only, if a key of the outbox has the
    /// wrong type, or if the outbox has a different number of shards. [`OpenError`] says what to do.
    pub async fn connect(self) -> Result<RedisStore, OpenError> {
        #[cfg(feature = "tls")]
        return self.with_tls().map_err(OpenError::Url)?.open().await;
        #[cfg(not(feature = "tls"))]
        self.open().await
    }

    async fn open(self) -> Result<RedisStore, OpenError> {
        let server = self.describe();
        let connections = self.connections().await.map_err(|error| open_error(&server, error))?;
        self.check_server(&connections, &server).await?;
        let keys = Keys::new(self.name.clone(), self.find_shards(&connections).await?);
        check_types(&connections, &keys).await?;
        if !self.read_only {
            self.settle_shards(&connections, &keys).await?;
        }
        let mut inner = Inner::new(connections, keys, self.servers);
        (inner.read_only, inner.repair_every) = (self.read_only, self.repair_every);
        Ok(RedisStore(Arc::new(inner)))
    }

    /// Adds the root certificate to every connection, and installs a default provider of cryptography if the process
    /// has none: rustls panics without one.
    #[cfg(feature = "tls")]
    fn with_tls(mut self) -> Result<Self, RedisError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // It fails only if another thread installed one first, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let Some(certificates) = &self.certificates else { return Ok(self) };
        for server in &mut self.servers {
            let client = Client::build_with_tls(server.clone(), certificates.clone())?;
            *server = client.get_connection_info().clone();
        }
        Ok(self)
    }

    async fn connections(&self) -> Result<RedisConnections, RedisError> {
        #[cfg(feature = "cluster")]
        if self.is_cluster {
            let client = || {
                let client = redis::cluster::ClusterClient::builder(self.servers.iter().cloned());
                #[cfg(feature = "tls")]
                let client = match &self.certificates {
                    Some(certificates) => client.certs(certificates.clone()),
                    None => client,
                };
                client
            };
            return RedisConnections::to_cluster(client).await;
        }
        let server = self.servers.first().cloned();
        let server =
            server.ok_or_else(|| RedisError::from((redis::ErrorKind::InvalidClientConfig, "no server")))?;
        RedisConnections::to_server(Client::open(server)?).await
    }

    /// The servers, without user and password.
    fn describe(&self) -> String {
        let addresses: Vec<String> = self.servers.iter().map(|server| server.addr().to_string()).collect();
        addresses.join(", ")
    }

    async fn check_server(&self, connections: &RedisConnections, server: &str) -> Result<(), OpenError> {
        let infos = connections.query_each::<InfoDict>(&redis::cmd("INFO")).await;
        // All nodes of a cluster are assumed to have the same version, so the first one is checked.
        let info = infos.map_err(|error| open_error(server, error))?.into_iter().next().map(|(_, info)| info);
        let field = |name: &str| info.as_ref().and_then(|info| info.get::<String>(name)).unwrap_or_default();
        let version = field("redis_version");
        if is_older(&version, MIN_SERVER_VERSION) {
            return Err(OpenError::OldServer { found: version, needed: MIN_SERVER_VERSION });
        }
        if !self.is_cluster && field("redis_mode") == "cluster" {
            return Err(OpenError::ClusterNode { server: server.to_owned() });
        }
        if !self.is_cluster && field("role") == "slave" && !self.read_only {
            return Err(OpenError::ReadOnlyServer { server: server.to_owned() });
        }
        Ok(())
    }

    /// The number of shards that the outbox has, or will have if it is new.
    async fn find_shards(&self, connections: &RedisConnections) -> Result<u16, OpenError> {
        let key = Keys::new(self.name.clone(), 1).settings();
        check_type(connections, &key, "hash").await?;
        let mut get = redis::cmd("HMGET");
        get.arg(&key).arg("shards").arg("layout");
        let (shards, layout): (Option<u16>, Option<u32>) = connections.query(&get).await?;
        let outbox = self.name.to_string();
        if let Some(found) = layout.filter(|layout| *layout > LAYOUT_VERSION) {
            return Err(OpenError::NewerLayout { outbox, found, known: LAYOUT_VERSION });
        }
        match (self.shards, shards) {
            (Some(asked), Some(found)) if asked != found => Err(OpenError::Shards { outbox, found, asked }),
            (asked, found) => Ok(found.or(asked).unwrap_or(1)),
        }
    }

    /// Stores the number of shards and the layout version, unless they are stored already. If another process stored a
    /// different number of shards first, opening fails.
    async fn settle_shards(&self, connections: &RedisConnections, keys: &Keys) -> Result<(), OpenError> {
        for (field, value) in [("shards", u32::from(keys.count())), ("layout", LAYOUT_VERSION)] {
            let mut set = redis::cmd("HSETNX");
            set.arg(keys.settings()).arg(field).arg(value);
            connections.query::<i64>(&set).await?;
        }
        let (found, asked) = (self.find_shards(connections).await?, keys.count());
        match found == asked {
            true => Ok(()),
            false => Err(OpenError::Shards { outbox: self.name.to_string(), found, asked }),
        }
    }
}

impl std::fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedisStoreBuilder({} on {})", self.name, self.describe())
    }
}

/// Fails if a key of the outbox has the wrong type. Nothing has been written at that point.
async fn check_types(connections: &RedisConnections, keys: &Keys) -> Result<(), OpenError> {
    let named = keys.shards().iter().flat_map(Shard::types);
    try_join_all(named.map(|(key, needed)| async move { check_type(connections, &key, needed).await }))
        .await
        .map(|_| ())
}

async fn check_type(
    connections: &RedisConnections,
    key: &str,
    needed: &'static str,
) -> Result<(), OpenError> {
    let mut cmd = redis::cmd("TYPE");
    cmd.arg(key);
    let found: String = connections.query(&cmd).await?;
    match found == "none" || found == needed {
        true => Ok(()),
        false => Err(OpenError::ForeignKey { key: key.to_owned(), found, needed }),
    }
}

/// Whether a version is older than another. An unreadable version is accepted.
fn is_older(version: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    let version = numbers(version);
    !version.is_empty() && version < numbers(than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (version, is_old) in [
            ("5.0.14", true),
            ("6.0.16", true),
            ("6.2.0", false),
            ("7.0.15", false),
            ("10.1", false),
            ("", false),
        ] {
            assert_eq!(is_older(version, MIN_SERVER_VERSION), is_old, "{version}");
        }
    }

    #[test]
    fn builder_shows_no_password() {
        let builder = RedisStore::builder("redis://user:sEcret@localhost:7/").unwrap();
        let shown = format!("{builder:?}");
        assert!(shown.contains("localhost:7") && !shown.contains("sEcret"), "{shown}");
    }
}
