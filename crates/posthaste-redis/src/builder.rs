//! The builder of a store, and the checks when it opens: is that a server we can use, and are these keys ours?

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::{Client, ConnectionInfo, InfoDict, RedisError};

use crate::connection::RedisConnections;
use crate::error::open_error;
use crate::keys::{Keys, MAX_SHARDS, OutboxName, Shard};
use crate::{Inner, OpenError, RedisStore, repair};

/// The oldest server that has every command we use.
const MIN_SERVER_VERSION: &str = "6.2";

/// The layout of the keys and of the texts in them: no state says it of itself.
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

    /// The name of the outbox, with which its keys begin. Default: `outbox`. Several outboxes live on one
    /// server side by side.
    pub fn name(mut self, name: OutboxName) -> Self {
        self.name = name;
        self
    }

    /// Into how many shards the outbox is divided, at most 256. Default: as many as it has, and one if it
    /// is new. The number stays with the outbox: another one is refused.
    ///
    /// On one server, one shard is right. On a cluster take a few times as many as it has nodes.
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = Some(shards.clamp(1, MAX_SHARDS));
        self
    }

    /// Accepts a server that cannot be written, a replica for example; calls that write fail there. For
    /// those who only look. Default: such a server is refused at once.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// How often a process that runs an engine on this store looks at a page of a hundred rows for something
    /// half done; [`RedisStore::repair`] looks at all of them. Default: every second; zero for never.
    pub fn repair_every(mut self, interval: Duration) -> Self {
        self.repair_every = interval;
        self
    }

    /// The certificate authority, in PEM, that signed the server's certificate. Default: those that the system
    /// trusts.
    #[cfg(feature = "tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates = Some(redis::TlsCertificates { client_tls: None, root_cert: Some(pem.into()) });
        self
    }

    /// Opens the store.
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

    /// Gives every connection the certificates that were named, and the process a provider of cryptography,
    /// without which rustls would panic.
    #[cfg(feature = "tls")]
    fn with_tls(mut self) -> Result<Self, RedisError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another thread may have been faster, which is as good.
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
        // Of the nodes of a cluster the first is as good as any.
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

    /// The number of shards that the outbox has, or will have.
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

    /// Writes the number down, unless another process was faster: then its number counts.
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

/// A key under one of our names that is not ours is named before anything is written.
// S1-07
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

/// Whether a version comes before another. One that says nothing is not old.
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
